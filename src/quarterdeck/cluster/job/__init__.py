"""Jobs: pods that run to completion, as kube-controller-manager's job controllers do it.

index        sets of completion indexes, as text: 0-2,4
podstate     what a pod means for its Job
policy       pod failure policies and success policies
backoff      how long after a failure no new pod is made
decision     what to do about a Job and its pods, and what its status says then
child        pods made from a template
tracking     counting each finished pod once, with finalizers
controller   the controller, and the one that frees pods whose Job is gone
ttl          deletes finished Jobs after their time
"""
