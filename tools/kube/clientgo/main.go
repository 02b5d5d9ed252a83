// A small program on unmodified client-go that proves an API server good enough for Go's controllers:
// typed clients that send protobuf, an informer that starts with a WatchList, and leader election.
//
// It takes the server from KUBECONFIG, works in the namespace default on objects with a name of its own,
// prints one line per check, and exits with 1 if one failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	namespace = "default"
	protobuf  = "application/vnd.kubernetes.protobuf"
	patience  = 30 * time.Second
)

func main() {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), nil).ClientConfig()
	if err != nil {
		fmt.Println("FAIL kubeconfig:", err)
		os.Exit(1)
	}
	config.ContentType = protobuf
	config.AcceptContentTypes = protobuf + ",application/json"
	wire := &recorder{}
	config.Wrap(wire.wrap)

	checks := []struct {
		name string
		run  func(context.Context, *rest.Config, *recorder, string) error
	}{
		{"typed-protobuf", typedProtobuf},
		{"informer-watchlist", informerWatchList},
		{"leader-election", leaderElection},
	}
	code := 0
	for _, check := range checks {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if err := check.run(ctx, config, wire, "clientgo-"+rand.String(8)); err != nil {
			fmt.Printf("FAIL %s: %v\n", check.name, err)
			code = 1
		} else {
			fmt.Println("ok", check.name)
		}
		cancel()
	}
	os.Exit(code)
}

// typedProtobuf creates, reads, updates and deletes objects of four groups, all bodies in protobuf.
func typedProtobuf(ctx context.Context, config *rest.Config, wire *recorder, name string) error {
	client := kubernetes.NewForConfigOrDie(config)
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}
	wire.reset()

	configMaps := client.CoreV1().ConfigMaps(namespace)
	configMap, err := configMaps.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: meta,
		Data:       map[string]string{"text": "value", "empty": ""},
		BinaryData: map[string][]byte{"bytes": {0, 1, 255}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create ConfigMap: %w", err)
	}
	if string(configMap.BinaryData["bytes"]) != "\x00\x01\xff" || len(configMap.Data) != 2 {
		return fmt.Errorf("the ConfigMap came back as %v %v", configMap.Data, configMap.BinaryData)
	}
	configMap.Data["text"] = "changed"
	if configMap, err = configMaps.Update(ctx, configMap, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("update ConfigMap: %w", err)
	}
	if configMap.Data["text"] != "changed" {
		return fmt.Errorf("the update came back as %v", configMap.Data)
	}
	if err := configMaps.Delete(ctx, name, *metav1.NewPreconditionDeleteOptions(string(configMap.UID))); err != nil {
		return fmt.Errorf("delete ConfigMap: %w", err)
	}
	if _, err := configMaps.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the deleted ConfigMap gave %v", err)
	}

	template := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{
			Name:         "main",
			Image:        "example/image:1",
			Resources:    corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("0.5")}},
			VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
		}},
	}
	background := metav1.DeletePropagationBackground
	now := int64(0)
	remove := metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}

	pods := client.CoreV1().Pods(namespace)
	pod, err := pods.Create(ctx, &corev1.Pod{ObjectMeta: meta, Spec: template}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create Pod: %w", err)
	}
	cpu := pod.Spec.Containers[0].Resources.Requests["cpu"]
	if cpu.String() != "500m" || pod.Spec.Volumes[0].EmptyDir == nil || pod.Status.Phase != corev1.PodPending {
		return fmt.Errorf("the Pod came back as %v %v", pod.Spec, pod.Status.Phase)
	}
	if err := pods.Delete(ctx, name, remove); err != nil {
		return fmt.Errorf("delete Pod: %w", err)
	}

	jobs := client.BatchV1().Jobs(namespace)
	suspend := true
	job, err := jobs.Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
		Suspend:  &suspend,
		Template: corev1.PodTemplateSpec{Spec: template},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create Job: %w", err)
	}
	if job.Spec.Parallelism == nil || *job.Spec.Parallelism != 1 || !*job.Spec.Suspend {
		return fmt.Errorf("the Job came back as %v", job.Spec)
	}
	if err := jobs.Delete(ctx, name, remove); err != nil {
		return fmt.Errorf("delete Job: %w", err)
	}

	leases := client.CoordinationV1().Leases(namespace)
	renewed := metav1.NewMicroTime(time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC))
	seconds, holder := int32(15), "me"
	lease, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: meta, Spec: coordinationv1.LeaseSpec{
		HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &renewed,
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create Lease: %w", err)
	}
	if !lease.Spec.RenewTime.Time.Equal(renewed.Time) {
		return fmt.Errorf("the Lease came back with renewTime %v", lease.Spec.RenewTime)
	}
	if err := leases.Delete(ctx, name, remove); err != nil {
		return fmt.Errorf("delete Lease: %w", err)
	}

	bodies, others := wire.contentTypes()
	if bodies == 0 || len(others) > 0 {
		return fmt.Errorf("%d protobuf bodies were sent, and others: %v", bodies, others)
	}
	return nil
}

// informerWatchList follows ConfigMaps with a shared informer that must never fall back to a list.
func informerWatchList(ctx context.Context, config *rest.Config, wire *recorder, name string) error {
	client := kubernetes.NewForConfigOrDie(config)
	configMaps := client.CoreV1().ConfigMaps(namespace)
	create := func(name string) (*corev1.ConfigMap, error) {
		return configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	}
	if _, err := create(name + "-early"); err != nil {
		return err
	}
	wire.reset()

	events := make(chan string, 100)
	report := func(kind string, object any) {
		if unknown, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = unknown.Obj
		}
		if configMap, ok := object.(*corev1.ConfigMap); ok && strings.HasPrefix(configMap.Name, name) {
			events <- kind + " " + strings.TrimPrefix(configMap.Name, name+"-") + " " + configMap.Data["k"]
		}
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { report("add", object) },
		UpdateFunc: func(_, object any) { report("update", object) },
		DeleteFunc: func(object any) { report("delete", object) },
	}); err != nil {
		return err
	}
	informing, stop := context.WithCancel(ctx)
	defer factory.Shutdown()
	defer stop()
	factory.StartWithContext(informing)
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return fmt.Errorf("the informer never synced; requests: %v", wire.paths())
	}

	late, err := create(name + "-late")
	if err != nil {
		return err
	}
	late.Data = map[string]string{"k": "v"}
	if _, err := configMaps.Update(ctx, late, metav1.UpdateOptions{}); err != nil {
		return err
	}
	for _, each := range []string{"-late", "-early"} {
		if err := configMaps.Delete(ctx, name+each, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	for _, want := range []string{"add early ", "add late ", "update late v", "delete late v", "delete early "} {
		select {
		case got := <-events:
			if got != want {
				return fmt.Errorf("got event %q, want %q", got, want)
			}
		case <-ctx.Done():
			return fmt.Errorf("no event %q; requests: %v", want, wire.paths())
		}
	}
	watchLists, lists := wire.reads("/configmaps")
	if watchLists != 1 || lists != 0 {
		return fmt.Errorf("%d WatchLists and %d lists; requests: %v", watchLists, lists, wire.paths())
	}
	return nil
}

// leaderElection lets two candidates compete: one leads, and the other takes over when it gives up.
func leaderElection(ctx context.Context, config *rest.Config, _ *recorder, name string) error {
	client := kubernetes.NewForConfigOrDie(config)
	defer func() {
		_ = client.CoordinationV1().Leases(namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
	}()
	type change struct {
		who   string
		leads bool
	}
	changes := make(chan change, 10)
	stops := map[string]context.CancelFunc{}
	var running sync.WaitGroup
	defer running.Wait()
	for _, who := range []string{"first", "second"} {
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name},
				Client:     client.CoordinationV1(),
				LockConfig: resourcelock.ResourceLockConfig{Identity: who},
			},
			LeaseDuration:   3 * time.Second,
			RenewDeadline:   2 * time.Second,
			RetryPeriod:     300 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { changes <- change{who, true} },
				OnStoppedLeading: func() { changes <- change{who, false} },
			},
		})
		if err != nil {
			return err
		}
		candidate, stop := context.WithCancel(ctx)
		defer stop()
		stops[who] = stop
		running.Add(1)
		go func() {
			defer running.Done()
			elector.Run(candidate)
		}()
	}
	next := func() (change, error) {
		select {
		case got := <-changes:
			return got, nil
		case <-ctx.Done():
			return change{}, errors.New("nobody became the leader in time")
		}
	}
	first, err := next()
	if err != nil {
		return err
	}
	// For several periods nobody else may lead.
	select {
	case got := <-changes:
		return fmt.Errorf("while %s led, %s reported leads=%v", first.who, got.who, got.leads)
	case <-time.After(2 * time.Second):
	}
	stops[first.who]()
	for {
		got, err := next()
		if err != nil {
			return err
		}
		if got.leads {
			if got.who == first.who {
				return errors.New("the candidate that gave up leads again")
			}
			break
		}
	}
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder == first.who {
		return fmt.Errorf("the lease is held by %v", holder)
	}
	if transitions := lease.Spec.LeaseTransitions; transitions == nil || *transitions < 1 {
		return fmt.Errorf("the lease counts %v transitions", transitions)
	}
	return nil
}

// recorder notes what went over the wire, so that a check can tell how its result came about.
type recorder struct {
	mutex    sync.Mutex
	requests []request
}

type request struct {
	method, path, query, contentType string
	hasBody                          bool
}

func (r *recorder) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(sent *http.Request) (*http.Response, error) {
		r.mutex.Lock()
		r.requests = append(r.requests, request{
			sent.Method, sent.URL.Path, sent.URL.RawQuery, sent.Header.Get("Content-Type"),
			sent.Body != nil && sent.Body != http.NoBody,
		})
		r.mutex.Unlock()
		return next.RoundTrip(sent)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(sent *http.Request) (*http.Response, error) { return f(sent) }

func (r *recorder) reset() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.requests = nil
}

// contentTypes counts protobuf bodies and names all other content types of bodies.
func (r *recorder) contentTypes() (bodies int, others []string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, each := range r.requests {
		if each.hasBody && each.contentType == protobuf {
			bodies++
		} else if each.hasBody {
			others = append(others, each.method+" "+each.contentType)
		}
	}
	return bodies, others
}

// reads counts the WatchLists and the plain lists of a collection.
func (r *recorder) reads(collection string) (watchLists, lists int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, each := range r.requests {
		if each.method != http.MethodGet || !strings.HasSuffix(each.path, collection) {
			continue
		}
		if strings.Contains(each.query, "sendInitialEvents=true") {
			watchLists++
		} else if !strings.Contains(each.query, "watch=true") {
			lists++
		}
	}
	return watchLists, lists
}

func (r *recorder) paths() (result []string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, each := range r.requests {
		result = append(result, each.method+" "+each.path+"?"+each.query)
	}
	return result
}
