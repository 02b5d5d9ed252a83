package main

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Scalars are pointers: zero and unset differ.

// Downloads are the settings of containerd.
type Downloads struct {
	MaxConcurrentDownloads *int64 `json:"maxConcurrentDownloads,omitempty"`
}

// Docker are the settings of Docker.
type Docker struct {
	MaxConcurrentDownloads *int64 `json:"maxConcurrentDownloads,omitempty"`
	Manage                 *bool  `json:"manage,omitempty"`
}

// NotManaged is a runtime that somebody else takes care of.
type NotManaged struct {
	CRISocketPath *string `json:"criSocketPath,omitempty"`
}

// CRI is the container runtime.
type CRI struct {
	Type         *string     `json:"type,omitempty"`
	Containerd   *Downloads  `json:"containerd,omitempty"`
	ContainerdV2 *Downloads  `json:"containerdV2,omitempty"`
	Docker       *Docker     `json:"docker,omitempty"`
	NotManaged   *NotManaged `json:"notManaged,omitempty"`
}

// OldCRI is the container runtime in v1alpha1.
type OldCRI struct {
	Type       *string    `json:"type,omitempty"`
	Containerd *Downloads `json:"containerd,omitempty"`
}

// ClassReference names an instance class.
type ClassReference struct {
	Kind *string `json:"kind,omitempty"`
	Name *string `json:"name,omitempty"`
}

// NotHeldResources are left free by the placeholder.
type NotHeldResources struct {
	CPU    *intstr.IntOrString `json:"cpu,omitempty"`
	Memory *intstr.IntOrString `json:"memory,omitempty"`
}

// StandbyHolder says how much of a standby node is held; v1alpha1 has no rate.
type StandbyHolder struct {
	NotHeldResources     *NotHeldResources `json:"notHeldResources,omitempty"`
	OverprovisioningRate *int64            `json:"overprovisioningRate,omitempty"`
}

// OldStandbyHolder is StandbyHolder in v1alpha1.
type OldStandbyHolder struct {
	NotHeldResources *NotHeldResources `json:"notHeldResources,omitempty"`
}

// Instances are the machines of a group, as far as all versions know them.
type Instances struct {
	ClassReference        *ClassReference     `json:"classReference,omitempty"`
	Zones                 []string            `json:"zones,omitempty"`
	MinPerZone            *int64              `json:"minPerZone,omitempty"`
	MaxPerZone            *int64              `json:"maxPerZone,omitempty"`
	MaxUnavailablePerZone *int64              `json:"maxUnavailablePerZone,omitempty"`
	MaxSurgePerZone       *int64              `json:"maxSurgePerZone,omitempty"`
	Standby               *intstr.IntOrString `json:"standby,omitempty"`
}

// CloudInstances are the machines of a group.
type CloudInstances struct {
	Instances     `json:",inline"`
	StandbyHolder *StandbyHolder `json:"standbyHolder,omitempty"`
	Priority      *int64         `json:"priority,omitempty"`
	QuickShutdown *bool          `json:"quickShutdown,omitempty"`
}

// OldCloudInstances are the machines of a group in v1alpha1.
type OldCloudInstances struct {
	Instances     `json:",inline"`
	StandbyHolder *OldStandbyHolder `json:"standbyHolder,omitempty"`
}

// StaticInstances are machines that exist already.
type StaticInstances struct {
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	Count         *int64                `json:"count,omitempty"`
}

// Taint keeps pods away.
type Taint struct {
	Key    *string `json:"key,omitempty"`
	Value  *string `json:"value,omitempty"`
	Effect *string `json:"effect,omitempty"`
}

// NodeTemplate is put on every node.
type NodeTemplate struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Taints      []Taint           `json:"taints,omitempty"`
}

// Chaos removes nodes on purpose.
type Chaos struct {
	Mode   *string `json:"mode,omitempty"`
	Period *string `json:"period,omitempty"`
}

// OperatingSystem has settings of the operating system.
type OperatingSystem struct {
	ManageKernel *bool `json:"manageKernel,omitempty"`
}

// Window is a daily time window.
type Window struct {
	From string   `json:"from"`
	To   string   `json:"to"`
	Days []string `json:"days,omitempty"`
}

// Automatic says how approved disruptions run.
type Automatic struct {
	DrainBeforeApproval *bool    `json:"drainBeforeApproval,omitempty"`
	Windows             []Window `json:"windows,omitempty"`
}

// RollingUpdate says when nodes are replaced.
type RollingUpdate struct {
	Windows []Window `json:"windows,omitempty"`
}

// Disruptions says who approves disruptive updates.
type Disruptions struct {
	ApprovalMode  *string        `json:"approvalMode,omitempty"`
	Automatic     *Automatic     `json:"automatic,omitempty"`
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// Reserved is what is kept for daemons.
type Reserved struct {
	CPU              *intstr.IntOrString `json:"cpu,omitempty"`
	Memory           *intstr.IntOrString `json:"memory,omitempty"`
	EphemeralStorage *intstr.IntOrString `json:"ephemeralStorage,omitempty"`
}

// ResourceReservation keeps resources for daemons.
type ResourceReservation struct {
	Mode   *string   `json:"mode,omitempty"`
	Static *Reserved `json:"static,omitempty"`
}

// TopologyManager aligns resources.
type TopologyManager struct {
	Enabled *bool   `json:"enabled,omitempty"`
	Scope   *string `json:"scope,omitempty"`
	Policy  *string `json:"policy,omitempty"`
}

// LimitedSwap is a limited amount of swap.
type LimitedSwap struct {
	Size string `json:"size"`
}

// MemorySwap says whether pods may swap.
type MemorySwap struct {
	SwapBehavior *string      `json:"swapBehavior,omitempty"`
	Swappiness   *int64       `json:"swappiness,omitempty"`
	LimitedSwap  *LimitedSwap `json:"limitedSwap,omitempty"`
}

// OldKubelet has settings of the kubelet that all versions know.
type OldKubelet struct {
	MaxPods              *int64  `json:"maxPods,omitempty"`
	RootDir              *string `json:"rootDir,omitempty"`
	ContainerLogMaxSize  *string `json:"containerLogMaxSize,omitempty"`
	ContainerLogMaxFiles *int64  `json:"containerLogMaxFiles,omitempty"`
	SeccompDefault       *bool   `json:"seccompDefault,omitempty"`
}

// Kubelet has settings of the kubelet.
type Kubelet struct {
	OldKubelet          `json:",inline"`
	ResourceReservation *ResourceReservation `json:"resourceReservation,omitempty"`
	TopologyManager     *TopologyManager     `json:"topologyManager,omitempty"`
	MemorySwap          *MemorySwap          `json:"memorySwap,omitempty"`
}

// Update says how nodes are updated.
type Update struct {
	MaxConcurrent *intstr.IntOrString `json:"maxConcurrent,omitempty"`
}

// Watchdog is a watchdog.
type Watchdog struct {
	Timeout string `json:"timeout"`
}

// Fencing is what a node does to itself.
type Fencing struct {
	Mode     string    `json:"mode"`
	Watchdog *Watchdog `json:"watchdog,omitempty"`
}

// TimeSlicing lets pods take turns.
type TimeSlicing struct {
	PartitionCount *float64 `json:"partitionCount,omitempty"`
}

// MigSlice are instances of one profile.
type MigSlice struct {
	Profile string `json:"profile"`
	Count   int64  `json:"count"`
}

// MigConfig cuts one GPU.
type MigConfig struct {
	Index  int64      `json:"index"`
	Slices []MigSlice `json:"slices"`
}

// Mig cuts GPUs.
type Mig struct {
	PartedConfig  *string     `json:"partedConfig,omitempty"`
	CustomConfigs []MigConfig `json:"customConfigs,omitempty"`
}

// GPU says how GPUs are shared.
type GPU struct {
	Sharing     *string      `json:"sharing,omitempty"`
	TimeSlicing *TimeSlicing `json:"timeSlicing,omitempty"`
	Exclusive   *struct{}    `json:"exclusive,omitempty"`
	Mig         *Mig         `json:"mig,omitempty"`
}

// Spec is the spec of v1.
type Spec struct {
	NodeType               string           `json:"nodeType"`
	CRI                    *CRI             `json:"cri,omitempty"`
	GPU                    *GPU             `json:"gpu,omitempty"`
	CloudInstances         *CloudInstances  `json:"cloudInstances,omitempty"`
	StaticInstances        *StaticInstances `json:"staticInstances,omitempty"`
	NodeTemplate           *NodeTemplate    `json:"nodeTemplate,omitempty"`
	Chaos                  *Chaos           `json:"chaos,omitempty"`
	OperatingSystem        *OperatingSystem `json:"operatingSystem,omitempty"`
	Disruptions            *Disruptions     `json:"disruptions,omitempty"`
	Kubelet                *Kubelet         `json:"kubelet,omitempty"`
	Update                 *Update          `json:"update,omitempty"`
	Fencing                *Fencing         `json:"fencing,omitempty"`
	NodeDrainTimeoutSecond *int64           `json:"nodeDrainTimeoutSecond,omitempty"`
}

// StaticNetwork is dropped by v1.
type StaticNetwork struct {
	InternalNetworkCIDRs []string `json:"internalNetworkCIDRs,omitempty"`
}

// OldSpec is the spec of v1alpha1.
type OldSpec struct {
	NodeType          string             `json:"nodeType"`
	KubernetesVersion *string            `json:"kubernetesVersion,omitempty"`
	Static            *StaticNetwork     `json:"static,omitempty"`
	Docker            *Docker            `json:"docker,omitempty"`
	CRI               *OldCRI            `json:"cri,omitempty"`
	CloudInstances    *OldCloudInstances `json:"cloudInstances,omitempty"`
	NodeTemplate      *NodeTemplate      `json:"nodeTemplate,omitempty"`
	Chaos             *Chaos             `json:"chaos,omitempty"`
	OperatingSystem   *OperatingSystem   `json:"operatingSystem,omitempty"`
	Disruptions       *Disruptions       `json:"disruptions,omitempty"`
	Kubelet           *OldKubelet        `json:"kubelet,omitempty"`
}

// LastOperation is what a machine controller tried last.
type LastOperation struct {
	Description    *string `json:"description,omitempty"`
	LastUpdateTime *string `json:"lastUpdateTime,omitempty"`
	State          *string `json:"state,omitempty"`
	Type           *string `json:"type,omitempty"`
}

// MachineFailure is a machine that could not be ordered.
type MachineFailure struct {
	Name          *string        `json:"name,omitempty"`
	ProviderID    *string        `json:"providerID,omitempty"`
	OwnerRef      *string        `json:"ownerRef,omitempty"`
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
}

// ConditionSummary are the conditions in one line.
type ConditionSummary struct {
	StatusMessage *string `json:"statusMessage,omitempty"`
	Ready         *string `json:"ready,omitempty"`
}

// OldStatus is the status that all versions know.
type OldStatus struct {
	Engine              *string           `json:"engine,omitempty"`
	Ready               *int64            `json:"ready,omitempty"`
	Nodes               *int64            `json:"nodes,omitempty"`
	Instances           *int64            `json:"instances,omitempty"`
	Desired             *int64            `json:"desired,omitempty"`
	Min                 *int64            `json:"min,omitempty"`
	Max                 *int64            `json:"max,omitempty"`
	UpToDate            *int64            `json:"upToDate,omitempty"`
	Standby             *int64            `json:"standby,omitempty"`
	Error               *string           `json:"error,omitempty"`
	KubernetesVersion   *string           `json:"kubernetesVersion,omitempty"`
	LastMachineFailures []MachineFailure  `json:"lastMachineFailures,omitempty"`
	ConditionSummary    *ConditionSummary `json:"conditionSummary,omitempty"`
}

// Condition is one aspect of a group's state.
type Condition struct {
	Type               string       `json:"type"`
	Status             string       `json:"status"`
	LastTransitionTime *metav1.Time `json:"lastTransitionTime,omitempty"`
	Message            *string      `json:"message,omitempty"`
}

// Checkpoint is a configuration that was seen.
type Checkpoint struct {
	LastTimestamp *string `json:"lastTimestamp,omitempty"`
	CheckSum      *string `json:"checkSum,omitempty"`
}

// Deckhouse says how far a group has been processed.
type Deckhouse struct {
	Synced    *string     `json:"synced,omitempty"`
	Observed  *Checkpoint `json:"observed,omitempty"`
	Processed *Checkpoint `json:"processed,omitempty"`
}

// Status is the status of v1.
type Status struct {
	OldStatus  `json:",inline"`
	Conditions []Condition `json:"conditions,omitempty"`
	Deckhouse  *Deckhouse  `json:"deckhouse,omitempty"`
}

// NodeGroup is v1, the hub.
type NodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              Spec    `json:"spec,omitempty"`
	Status            *Status `json:"status,omitempty"`
}

// OldNodeGroup is v1alpha1, a spoke.
type OldNodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              OldSpec    `json:"spec,omitempty"`
	Status            *OldStatus `json:"status,omitempty"`
}

// Hub marks the hub.
func (*NodeGroup) Hub() {}

// DeepCopyObject implements runtime.Object; nothing here is changed in place, so parts may be shared.
func (n *NodeGroup) DeepCopyObject() runtime.Object {
	out := *n
	out.ObjectMeta = *n.ObjectMeta.DeepCopy()
	return &out
}

// DeepCopyObject implements runtime.Object.
func (o *OldNodeGroup) DeepCopyObject() runtime.Object {
	out := *o
	out.ObjectMeta = *o.ObjectMeta.DeepCopy()
	return &out
}
