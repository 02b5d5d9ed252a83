package main

import (
	"maps"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

const (
	hubVersion   = group + "/v1"
	oldVersion   = group + "/v1alpha1"
	docker       = "Docker"
	containerd   = "Containerd"
	containerdV2 = "ContainerdV2"
	hybrid       = "Hybrid"
)

var toNew = map[string]string{"Cloud": "CloudEphemeral"}
var toOld = map[string]string{"CloudEphemeral": "Cloud", "CloudPermanent": hybrid, "CloudStatic": hybrid}

func renamed(names map[string]string, name string) string {
	if other, found := names[name]; found {
		return other
	}
	return name
}

// ConvertFrom makes this object of a v1 one; what it cannot hold goes into the annotation.
func (o *OldNodeGroup) ConvertFrom(hub conversion.Hub) error {
	in := hub.(*NodeGroup)
	memory := takeMemory(in)
	o.ObjectMeta = in.ObjectMeta
	o.Annotations = withoutMemory(in.Annotations)
	o.Spec, o.Status = oldSpec(&in.Spec), nil
	if in.Status != nil {
		o.Status = &in.Status.OldStatus
	}
	o.restore(memory[oldVersion])
	delete(memory, oldVersion)
	lost := losses(in, o)
	return putMemory(&o.ObjectMeta, memory, hubVersion, lost)
}

// ConvertTo makes a v1 object of this one.
func (o *OldNodeGroup) ConvertTo(hub conversion.Hub) error {
	out := hub.(*NodeGroup)
	memory := takeMemory(o)
	out.ObjectMeta = o.ObjectMeta
	out.Annotations = withoutMemory(o.Annotations)
	out.Spec, out.Status = newSpec(&o.Spec), nil
	if o.Status != nil {
		out.Status = &Status{OldStatus: *o.Status}
	}
	if stored := memory[hubVersion]; len(stored) > 0 {
		if restored := restored(out, stored); restored != nil {
			*out = *restored
		}
		delete(memory, hubVersion)
	}
	if out.Spec.NodeType == hybrid {
		out.Spec.NodeType = resolve(out)
	}
	return putMemory(&out.ObjectMeta, memory, oldVersion, oldLosses(o, out))
}

func resolve(out *NodeGroup) string {
	if out.Name == "master" || out.Annotations["node.deckhouse.io/permanent-node-group"] == "true" {
		return "CloudPermanent"
	}
	if known.permanent[out.Name] {
		return "CloudPermanent"
	}
	return "CloudStatic"
}

func oldSpec(in *Spec) OldSpec {
	out := OldSpec{
		NodeType:        renamed(toOld, in.NodeType),
		NodeTemplate:    in.NodeTemplate,
		Chaos:           in.Chaos,
		OperatingSystem: in.OperatingSystem,
		Disruptions:     in.Disruptions,
	}
	if in.CRI != nil {
		out.Docker = in.CRI.Docker
		out.CRI = &OldCRI{Type: in.CRI.Type, Containerd: in.CRI.Containerd}
		if is(in.CRI.Type, containerdV2) {
			out.CRI.Type = text(containerd)
		}
		if out.CRI.Containerd == nil {
			out.CRI.Containerd = in.CRI.ContainerdV2
		}
	}
	if in.CloudInstances != nil {
		out.CloudInstances = &OldCloudInstances{Instances: in.CloudInstances.Instances}
		if holder := in.CloudInstances.StandbyHolder; holder != nil {
			out.CloudInstances.StandbyHolder = &OldStandbyHolder{NotHeldResources: holder.NotHeldResources}
		}
	}
	if in.Kubelet != nil {
		out.Kubelet = &in.Kubelet.OldKubelet
	}
	return out
}

func newSpec(in *OldSpec) Spec {
	out := Spec{
		NodeType:        renamed(toNew, in.NodeType),
		NodeTemplate:    in.NodeTemplate,
		Chaos:           in.Chaos,
		OperatingSystem: in.OperatingSystem,
		Disruptions:     in.Disruptions,
	}
	if in.CRI != nil {
		out.CRI = &CRI{Type: in.CRI.Type, Containerd: in.CRI.Containerd}
	}
	if in.Docker != nil {
		if out.CRI == nil {
			out.CRI = &CRI{}
		}
		out.CRI.Docker = in.Docker
		if out.CRI.Type == nil || *out.CRI.Type == "" {
			out.CRI.Type = text(docker)
		}
	}
	if in.CloudInstances != nil {
		out.CloudInstances = &CloudInstances{Instances: in.CloudInstances.Instances}
		if holder := in.CloudInstances.StandbyHolder; holder != nil {
			out.CloudInstances.StandbyHolder = &StandbyHolder{NotHeldResources: holder.NotHeldResources}
		}
	}
	if in.Kubelet != nil {
		out.Kubelet = &Kubelet{OldKubelet: *in.Kubelet}
	}
	return out
}

// losses are the entries for what v1alpha1 cannot hold, sorted by path.
func losses(in *NodeGroup, out *OldNodeGroup) []written {
	lost := make([]written, 0, 16)
	add := func(path string, value, was any) { lost = append(lost, written{path, value, was}) }
	spec := &in.Spec
	if instances := spec.CloudInstances; instances != nil {
		if instances.Priority != nil {
			add("/spec/cloudInstances/priority", instances.Priority, nil)
		}
		if instances.QuickShutdown != nil {
			add("/spec/cloudInstances/quickShutdown", instances.QuickShutdown, nil)
		}
		if holder := instances.StandbyHolder; holder != nil && holder.OverprovisioningRate != nil {
			add("/spec/cloudInstances/standbyHolder/overprovisioningRate", holder.OverprovisioningRate, nil)
		}
	}
	if cri := spec.CRI; cri != nil {
		lost = append(lost, criLosses(cri, out)...)
	}
	if spec.Fencing != nil {
		add("/spec/fencing", spec.Fencing, nil)
	}
	if spec.GPU != nil {
		add("/spec/gpu", spec.GPU, nil)
	}
	if kubelet := spec.Kubelet; kubelet != nil {
		if kubelet.MemorySwap != nil {
			add("/spec/kubelet/memorySwap", kubelet.MemorySwap, nil)
		}
		if kubelet.ResourceReservation != nil {
			add("/spec/kubelet/resourceReservation", kubelet.ResourceReservation, nil)
		}
		if kubelet.TopologyManager != nil {
			add("/spec/kubelet/topologyManager", kubelet.TopologyManager, nil)
		}
	}
	if spec.NodeDrainTimeoutSecond != nil {
		add("/spec/nodeDrainTimeoutSecond", spec.NodeDrainTimeoutSecond, nil)
	}
	if out.Spec.NodeType == hybrid {
		add("/spec/nodeType", spec.NodeType, hybrid)
	}
	if spec.StaticInstances != nil {
		add("/spec/staticInstances", spec.StaticInstances, nil)
	}
	if spec.Update != nil {
		add("/spec/update", spec.Update, nil)
	}
	if in.Status != nil {
		if in.Status.Conditions != nil {
			add("/status/conditions", in.Status.Conditions, nil)
		}
		if in.Status.Deckhouse != nil {
			add("/status/deckhouse", in.Status.Deckhouse, nil)
		}
	}
	return lost
}

func criLosses(cri *CRI, out *OldNodeGroup) []written {
	var lost []written
	// What comes back is containerd's section, whichever it was made of.
	returned := out.Spec.CRI.Containerd
	if is(cri.Type, containerdV2) || !reflect.DeepEqual(returned, cri.Containerd) {
		lost = append(lost, written{pathContainerd, orNil(cri.Containerd), orNil(returned)})
	}
	if cri.ContainerdV2 != nil {
		lost = append(lost, written{pathContainerdV2, cri.ContainerdV2, nil})
	}
	if cri.NotManaged != nil {
		lost = append(lost, written{"/spec/cri/notManaged", cri.NotManaged, nil})
	}
	if is(cri.Type, containerdV2) {
		lost = append(lost, written{pathType, containerdV2, containerd})
	} else if cri.Type == nil && cri.Docker != nil {
		lost = append(lost, written{pathType, nil, docker})
	}
	return lost
}

// oldLosses are the entries for what v1 cannot hold.
func oldLosses(in *OldNodeGroup, out *NodeGroup) []written {
	var lost []written
	if in.Spec.Docker != nil && (in.Spec.CRI == nil || in.Spec.CRI.Type == nil) {
		if in.Spec.CRI == nil {
			lost = append(lost, written{"/spec/cri", nil, OldCRI{Type: out.Spec.CRI.Type}})
		} else {
			lost = append(lost, written{pathType, nil, out.Spec.CRI.Type})
		}
	}
	if in.Spec.KubernetesVersion != nil {
		lost = append(lost, written{"/spec/kubernetesVersion", in.Spec.KubernetesVersion, nil})
	}
	if in.Spec.Static != nil {
		lost = append(lost, written{"/spec/static", in.Spec.Static, nil})
	}
	return lost
}

func is(value *string, wanted string) bool { return value != nil && *value == wanted }

func text(value string) *string { return &value }

func orNil(value *Downloads) any {
	if value == nil {
		return nil
	}
	return value
}

func withoutMemory(annotations map[string]string) map[string]string {
	if _, found := annotations[memoryKey]; !found {
		return annotations
	}
	if len(annotations) == 1 {
		return nil
	}
	kept := maps.Clone(annotations)
	delete(kept, memoryKey)
	return kept
}
