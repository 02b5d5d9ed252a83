package main

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

const droppedVersion = "node.deckhouse.io/kubernetes-version"

// ClassReference names an instance class.
type ClassReference struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name,omitempty"`
}

// CloudInstances are the machines of a group.
type CloudInstances struct {
	MinPerZone     *int32          `json:"minPerZone,omitempty"`
	MaxPerZone     *int32          `json:"maxPerZone,omitempty"`
	Zones          []string        `json:"zones,omitempty"`
	ClassReference *ClassReference `json:"classReference,omitempty"`
}

// Taint keeps pods away.
type Taint struct {
	Key    string `json:"key,omitempty"`
	Value  string `json:"value,omitempty"`
	Effect string `json:"effect,omitempty"`
}

// NodeTemplate is put on every node.
type NodeTemplate struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Taints      []Taint           `json:"taints,omitempty"`
}

// Kubelet has settings of the kubelet.
type Kubelet struct {
	MaxPods *int32 `json:"maxPods,omitempty"`
	RootDir string `json:"rootDir,omitempty"`
}

// Disruptions says who approves disruptive updates.
type Disruptions struct {
	ApprovalMode string `json:"approvalMode,omitempty"`
}

// Docker is the container runtime of old.
type Docker struct {
	MaxConcurrentDownloads *int32 `json:"maxConcurrentDownloads,omitempty"`
}

// CRI is the container runtime.
type CRI struct {
	Type                   string `json:"type,omitempty"`
	MaxConcurrentDownloads *int32 `json:"maxConcurrentDownloads,omitempty"`
}

// NodeGroupStatus is the same in both versions.
type NodeGroupStatus struct {
	Ready      int32              `json:"ready,omitempty"`
	Nodes      int32              `json:"nodes,omitempty"`
	Instances  int32              `json:"instances,omitempty"`
	Desired    int32              `json:"desired,omitempty"`
	UpToDate   int32              `json:"upToDate,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// OldSpec is the spec of v1alpha1.
type OldSpec struct {
	NodeType          string          `json:"nodeType"`
	Docker            *Docker         `json:"docker,omitempty"`
	KubernetesVersion string          `json:"kubernetesVersion,omitempty"`
	CloudInstances    *CloudInstances `json:"cloudInstances,omitempty"`
	NodeTemplate      *NodeTemplate   `json:"nodeTemplate,omitempty"`
	Kubelet           *Kubelet        `json:"kubelet,omitempty"`
	Disruptions       *Disruptions    `json:"disruptions,omitempty"`
}

// OldNodeGroup is v1alpha1, a spoke.
type OldNodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OldSpec         `json:"spec,omitempty"`
	Status            NodeGroupStatus `json:"status,omitempty"`
}

// Spec is the spec of v1.
type Spec struct {
	NodeType       string          `json:"nodeType"`
	CRI            *CRI            `json:"cri,omitempty"`
	CloudInstances *CloudInstances `json:"cloudInstances,omitempty"`
	NodeTemplate   *NodeTemplate   `json:"nodeTemplate,omitempty"`
	Kubelet        *Kubelet        `json:"kubelet,omitempty"`
	Disruptions    *Disruptions    `json:"disruptions,omitempty"`
}

// NodeGroup is v1, the hub.
type NodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec            `json:"spec,omitempty"`
	Status            NodeGroupStatus `json:"status,omitempty"`
}

// Hub marks the hub.
func (*NodeGroup) Hub() {}

var toNew = map[string]string{"Cloud": "CloudEphemeral", "Hybrid": "CloudStatic", "Static": "Static"}
var toOld = map[string]string{"CloudEphemeral": "Cloud", "CloudStatic": "Hybrid", "Static": "Static"}

// ConvertTo makes a v1 object of this one.
func (o *OldNodeGroup) ConvertTo(hub conversion.Hub) error {
	out := hub.(*NodeGroup)
	out.ObjectMeta = o.ObjectMeta
	out.Spec = Spec{
		NodeType:       toNew[o.Spec.NodeType],
		CloudInstances: o.Spec.CloudInstances,
		NodeTemplate:   o.Spec.NodeTemplate,
		Kubelet:        o.Spec.Kubelet,
		Disruptions:    o.Spec.Disruptions,
	}
	if o.Spec.Docker != nil {
		out.Spec.CRI = &CRI{Type: "Docker", MaxConcurrentDownloads: o.Spec.Docker.MaxConcurrentDownloads}
	}
	if o.Spec.KubernetesVersion != "" {
		out.Annotations = maps.Clone(o.Annotations)
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[droppedVersion] = o.Spec.KubernetesVersion
	}
	out.Status = o.Status
	return nil
}

// ConvertFrom makes this object of a v1 one.
func (o *OldNodeGroup) ConvertFrom(hub conversion.Hub) error {
	in := hub.(*NodeGroup)
	o.ObjectMeta = in.ObjectMeta
	o.Spec = OldSpec{
		NodeType:       toOld[in.Spec.NodeType],
		CloudInstances: in.Spec.CloudInstances,
		NodeTemplate:   in.Spec.NodeTemplate,
		Kubelet:        in.Spec.Kubelet,
		Disruptions:    in.Spec.Disruptions,
	}
	if in.Spec.CRI != nil && in.Spec.CRI.Type == "Docker" {
		o.Spec.Docker = &Docker{MaxConcurrentDownloads: in.Spec.CRI.MaxConcurrentDownloads}
	}
	if version, found := in.Annotations[droppedVersion]; found {
		o.Spec.KubernetesVersion = version
		o.Annotations = maps.Clone(in.Annotations)
		delete(o.Annotations, droppedVersion)
	}
	o.Status = in.Status
	return nil
}

// DeepCopyObject implements runtime.Object.
func (o *OldNodeGroup) DeepCopyObject() runtime.Object {
	out := *o
	out.ObjectMeta = *o.ObjectMeta.DeepCopy()
	out.Status.Conditions = slices.Clone(o.Status.Conditions)
	return &out
}

// DeepCopyObject implements runtime.Object.
func (n *NodeGroup) DeepCopyObject() runtime.Object {
	out := *n
	out.ObjectMeta = *n.ObjectMeta.DeepCopy()
	out.Status.Conditions = slices.Clone(n.Status.Conditions)
	return &out
}

func addNodeGroup(scheme *runtime.Scheme) {
	const group = "deckhouse.io"
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: group, Version: "v1alpha1", Kind: "NodeGroup"}, &OldNodeGroup{})
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: group, Version: "v1", Kind: "NodeGroup"}, &NodeGroup{})
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Group: group, Version: "v1alpha1"})
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Group: group, Version: "v1"})
}
