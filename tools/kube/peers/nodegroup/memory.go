package main

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	memoryKey        = "node.deckhouse.io/conversion-data"
	maxMemory        = 200 * 1024
	pathType         = "/spec/cri/type"
	pathContainerd   = "/spec/cri/containerd"
	pathContainerdV2 = "/spec/cri/containerdV2"
)

// entry is one difference a plain round trip would make.
type entry struct {
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
	Was   json.RawMessage `json:"was"`
}

// written is an entry to be stored.
type written struct {
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
	Was   any    `json:"was,omitempty"`
}

type memory map[string][]entry

// takeMemory reads the annotation; one that makes no sense is no memory.
func takeMemory(object metav1.Object) memory {
	stored, found := object.GetAnnotations()[memoryKey]
	if !found {
		return memory{}
	}
	var read memory
	if json.Unmarshal([]byte(stored), &read) != nil || read == nil {
		return memory{}
	}
	return read
}

// putMemory writes the annotation, unless there is nothing to say or too much.
func putMemory(meta *metav1.ObjectMeta, rest memory, version string, lost []written) error {
	all := map[string]any{}
	for other, entries := range rest {
		all[other] = entries
	}
	if len(lost) > 0 {
		all[version] = lost
	}
	if len(all) == 0 {
		return nil
	}
	value, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if len(value) > maxMemory {
		return nil
	}
	annotations := maps.Clone(meta.Annotations)
	if annotations == nil {
		annotations = make(map[string]string, 1)
	}
	annotations[memoryKey] = string(value)
	meta.Annotations = annotations
	return nil
}

// restored is a group with every entry applied that still fits; nil if that would break the schema.
func restored(plain *NodeGroup, entries []entry) *NodeGroup {
	out := *plain
	if plain.Status != nil {
		status := *plain.Status
		out.Status = &status
	}
	for _, one := range restoreCRI(&out.Spec, entries) {
		if !apply(&out, one) {
			return nil
		}
	}
	if !isValid(&out) {
		return nil
	}
	return &out
}

// restoreCRI treats ContainerdV2, which v1alpha1 calls Containerd; it gives the entries left to apply.
func restoreCRI(spec *Spec, entries []entry) []entry {
	at := slices.IndexFunc(entries, func(one entry) bool { return one.Path == pathType })
	if at < 0 || string(entries[at].Value) != `"ContainerdV2"` || string(entries[at].Was) != `"Containerd"` {
		return entries
	}
	chosen := spec.CRI != nil && is(spec.CRI.Type, containerd)
	guard := slices.IndexFunc(entries, func(one entry) bool { return one.Path == pathContainerd })
	if chosen && (guard < 0 || same(entries[guard].Was, spec.CRI.Containerd)) {
		return entries
	}
	if chosen {
		spec.CRI = &CRI{Type: text(containerdV2), ContainerdV2: spec.CRI.Containerd,
			Docker: spec.CRI.Docker, NotManaged: spec.CRI.NotManaged}
	}
	return slices.DeleteFunc(slices.Clone(entries), func(one entry) bool {
		return one.Path == pathType || one.Path == pathContainerd || one.Path == pathContainerdV2
	})
}

// same says whether a stored value is that of a field; both absent are equal.
func same[T any](stored json.RawMessage, present *T) bool {
	if stored == nil || present == nil {
		return stored == nil && present == nil
	}
	var value T
	return json.Unmarshal(stored, &value) == nil && reflect.DeepEqual(&value, present)
}

// set gives a field its stored value, if the field is still what it was.
func set[T any](field **T, one entry) bool {
	if !same(one.Was, *field) {
		return true
	}
	if one.Value == nil {
		*field = nil
		return true
	}
	value := new(T)
	if json.Unmarshal(one.Value, value) != nil {
		return false
	}
	*field = value
	return true
}

// apply applies one entry; false if its value has the wrong form.
func apply(out *NodeGroup, one entry) bool {
	spec := &out.Spec
	switch one.Path {
	case "/spec/nodeType":
		if !same(one.Was, &spec.NodeType) {
			return true
		}
		return json.Unmarshal(one.Value, &spec.NodeType) == nil
	case "/spec/gpu":
		return set(&spec.GPU, one)
	case "/spec/fencing":
		return set(&spec.Fencing, one)
	case "/spec/update":
		return set(&spec.Update, one)
	case "/spec/staticInstances":
		return set(&spec.StaticInstances, one)
	case "/spec/nodeDrainTimeoutSecond":
		return set(&spec.NodeDrainTimeoutSecond, one)
	case "/status/conditions":
		if out.Status == nil || out.Status.Conditions != nil {
			return true
		}
		return json.Unmarshal(one.Value, &out.Status.Conditions) == nil
	case "/status/deckhouse":
		return out.Status == nil || set(&out.Status.Deckhouse, one)
	}
	if kubelet := spec.Kubelet; kubelet != nil {
		switch one.Path {
		case "/spec/kubelet/resourceReservation":
			return set(&kubelet.ResourceReservation, one)
		case "/spec/kubelet/topologyManager":
			return set(&kubelet.TopologyManager, one)
		case "/spec/kubelet/memorySwap":
			return set(&kubelet.MemorySwap, one)
		}
	}
	if instances := spec.CloudInstances; instances != nil {
		switch one.Path {
		case "/spec/cloudInstances/priority":
			return set(&instances.Priority, one)
		case "/spec/cloudInstances/quickShutdown":
			return set(&instances.QuickShutdown, one)
		case "/spec/cloudInstances/standbyHolder/overprovisioningRate":
			return instances.StandbyHolder == nil || set(&instances.StandbyHolder.OverprovisioningRate, one)
		}
	}
	if cri := spec.CRI; cri != nil {
		switch one.Path {
		case pathType:
			return set(&cri.Type, one)
		case pathContainerd:
			return set(&cri.Containerd, one)
		case pathContainerdV2:
			return set(&cri.ContainerdV2, one)
		case "/spec/cri/notManaged":
			return set(&cri.NotManaged, one)
		}
	}
	return true
}

// restore gives back what v1 could not hold.
func (o *OldNodeGroup) restore(entries []entry) {
	for _, one := range entries {
		switch one.Path {
		case "/spec/kubernetesVersion":
			set(&o.Spec.KubernetesVersion, one)
		case "/spec/static":
			set(&o.Spec.Static, one)
		case "/spec/cri":
			set(&o.Spec.CRI, one)
		case pathType:
			if o.Spec.CRI != nil {
				set(&o.Spec.CRI.Type, one)
			}
		}
	}
}

var (
	sizePattern    = regexp.MustCompile(`^\d+G$`)
	cpuPattern     = regexp.MustCompile(`\d+[m]`)
	amountPattern  = regexp.MustCompile(`\d+[Ei|Pi|Ti|Gi|Mi|Ki|E|P|T|G|M|k|m]`)
	updatePattern  = regexp.MustCompile(`^[1-9][0-9]*%?$`)
	timeoutPattern = regexp.MustCompile(`^[0-9]+[smh]{1}$`)
	migPattern     = regexp.MustCompile(`^all-(balanced|disabled|[0-9]g[.][0-9]{1,2}gb([.]me)?)$`)
	profilePattern = regexp.MustCompile(`^[0-9]+g\.[0-9]+gb(\.me)?$`)
)

// isValid checks the fields of v1 that v1alpha1 has not, and the rules between fields: the rest was checked by
// the API server.
func isValid(n *NodeGroup) bool {
	spec := &n.Spec
	switch spec.NodeType {
	case "CloudEphemeral":
		if spec.CloudInstances == nil || spec.StaticInstances != nil {
			return false
		}
	case "Static", "CloudStatic", hybrid:
		if spec.CloudInstances != nil {
			return false
		}
	case "CloudPermanent":
		if spec.StaticInstances != nil {
			return false
		}
	default:
		return false
	}
	if kubelet := spec.Kubelet; kubelet != nil && !isKubeletValid(kubelet) {
		return false
	}
	if instances := spec.CloudInstances; instances != nil {
		if holder := instances.StandbyHolder; holder != nil && !within(holder.OverprovisioningRate, 1, 80) {
			return false
		}
	}
	if static := spec.StaticInstances; static != nil && static.Count != nil && *static.Count < 0 {
		return false
	}
	if spec.Fencing != nil && (spec.Fencing.Mode != "Watchdog" ||
		spec.Fencing.Watchdog != nil && !timeoutPattern.MatchString(spec.Fencing.Watchdog.Timeout)) {
		return false
	}
	if update := spec.Update; update != nil && update.MaxConcurrent != nil &&
		update.MaxConcurrent.StrVal != "" && !updatePattern.MatchString(update.MaxConcurrent.StrVal) {
		return false
	}
	return spec.GPU == nil || isGPUValid(spec.GPU)
}

func isKubeletValid(kubelet *Kubelet) bool {
	if manager := kubelet.TopologyManager; manager != nil {
		if !oneOf(manager.Scope, "Container", "Pod") ||
			!oneOf(manager.Policy, "None", "BestEffort", "Restricted", "SingleNumaNode") {
			return false
		}
	}
	if swap := kubelet.MemorySwap; swap != nil {
		limited := swap.LimitedSwap != nil
		if !oneOf(swap.SwapBehavior, "NoSwap", "LimitedSwap") || !within(swap.Swappiness, 0, 100) ||
			limited && (is(swap.SwapBehavior, "NoSwap") || !sizePattern.MatchString(swap.LimitedSwap.Size)) ||
			!limited && is(swap.SwapBehavior, "LimitedSwap") {
			return false
		}
	}
	reservation := kubelet.ResourceReservation
	if reservation == nil {
		return true
	}
	if !oneOf(reservation.Mode, "Off", "Auto", "Static") || is(reservation.Mode, "Static") && reservation.Static == nil {
		return false
	}
	static := reservation.Static
	return static == nil ||
		(static.CPU == nil || static.CPU.StrVal == "" || cpuPattern.MatchString(static.CPU.StrVal)) &&
			(static.Memory == nil || static.Memory.StrVal == "" || amountPattern.MatchString(static.Memory.StrVal)) &&
			(static.EphemeralStorage == nil || static.EphemeralStorage.StrVal == "" ||
				amountPattern.MatchString(static.EphemeralStorage.StrVal))
}

func isGPUValid(gpu *GPU) bool {
	if gpu.Sharing == nil || !oneOf(gpu.Sharing, "TimeSlicing", "MIG", "Exclusive") {
		return false
	}
	if slicing := gpu.TimeSlicing; slicing != nil && slicing.PartitionCount != nil &&
		(*slicing.PartitionCount < 1 || *slicing.PartitionCount > 100) {
		return false
	}
	mig := gpu.Mig
	if mig == nil {
		return true
	}
	if is(mig.PartedConfig, "custom") != (mig.CustomConfigs != nil) {
		return false
	}
	if mig.PartedConfig != nil && !is(mig.PartedConfig, "custom") && !migPattern.MatchString(*mig.PartedConfig) {
		return false
	}
	for _, config := range mig.CustomConfigs {
		for _, slice := range config.Slices {
			if slice.Count < 1 || slice.Count > 7 || !profilePattern.MatchString(slice.Profile) {
				return false
			}
		}
	}
	return true
}

func oneOf(value *string, allowed ...string) bool {
	return value == nil || slices.Contains(allowed, *value)
}

func within(value *int64, low, high int64) bool {
	return value == nil || *value >= low && *value <= high
}
