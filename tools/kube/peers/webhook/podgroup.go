package main

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// TopologyConstraint says where pods must or should be close to each other.
type TopologyConstraint struct {
	Topology               string `json:"topology,omitempty"`
	RequiredTopologyLevel  string `json:"requiredTopologyLevel,omitempty"`
	PreferredTopologyLevel string `json:"preferredTopologyLevel,omitempty"`
}

// SubGroup is one node of the tree.
type SubGroup struct {
	Name               string              `json:"name"`
	MinMember          *int32              `json:"minMember,omitempty"`
	Parent             *string             `json:"parent,omitempty"`
	TopologyConstraint *TopologyConstraint `json:"topologyConstraint,omitempty"`
}

// PodGroupSpec is what the user wants.
type PodGroupSpec struct {
	MinMember          *int32             `json:"minMember,omitempty"`
	Queue              string             `json:"queue,omitempty"`
	PriorityClassName  string             `json:"priorityClassName,omitempty"`
	Preemptibility     string             `json:"preemptibility,omitempty"`
	TopologyConstraint TopologyConstraint `json:"topologyConstraint,omitempty"`
	SubGroups          []SubGroup         `json:"subGroups,omitempty"`
}

// PodGroup is a gang.
type PodGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              PodGroupSpec `json:"spec,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (p *PodGroup) DeepCopyObject() runtime.Object {
	out := *p
	out.ObjectMeta = *p.ObjectMeta.DeepCopy()
	out.Spec.SubGroups = append([]SubGroup(nil), p.Spec.SubGroups...)
	return &out
}

func addPodGroup(scheme *runtime.Scheme) {
	version := schema.GroupVersion{Group: "scheduling.run.ai", Version: "v2alpha2"}
	scheme.AddKnownTypes(version, &PodGroup{})
	metav1.AddToGroupVersion(scheme, version)
}

type podGroupValidator struct{}

func (podGroupValidator) ValidateCreate(_ context.Context, group *PodGroup) (admission.Warnings, error) {
	return nil, validateSubGroups(group.Spec.SubGroups)
}

func (podGroupValidator) ValidateUpdate(_ context.Context, _, group *PodGroup) (admission.Warnings, error) {
	return nil, validateSubGroups(group.Spec.SubGroups)
}

func (podGroupValidator) ValidateDelete(context.Context, *PodGroup) (admission.Warnings, error) {
	return nil, nil
}

func validateSubGroups(groups []SubGroup) error {
	parents := make(map[string]*string, len(groups))
	for i := range groups {
		group := &groups[i]
		if group.Name != strings.ToLower(group.Name) {
			return fmt.Errorf("subgroup name %q must be lowercase", group.Name)
		}
		if group.Parent != nil && *group.Parent != strings.ToLower(*group.Parent) {
			return fmt.Errorf("parent of subgroup %q: subgroup name %q must be lowercase", group.Name, *group.Parent)
		}
		if _, found := parents[group.Name]; found {
			return fmt.Errorf("duplicate subgroup name %s", group.Name)
		}
		if group.MinMember != nil && *group.MinMember < 1 {
			return fmt.Errorf("minMember of subgroup %s must be at least 1", group.Name)
		}
		parents[group.Name] = group.Parent
	}
	for i := range groups {
		if parent := groups[i].Parent; parent != nil {
			if _, found := parents[*parent]; !found {
				return fmt.Errorf("parent %s of %s was not found", *parent, groups[i].Name)
			}
		}
	}
	checked := make(map[string]bool, len(groups))
	for i := range groups {
		seen := map[string]bool{}
		for name := groups[i].Name; !checked[name]; {
			if seen[name] {
				return fmt.Errorf("cycle detected in subgroups")
			}
			seen[name] = true
			parent := parents[name]
			if parent == nil {
				break
			}
			name = *parent
		}
		for name := range seen {
			checked[name] = true
		}
	}
	return nil
}
