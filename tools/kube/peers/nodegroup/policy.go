package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

var (
	windowTime   = regexp.MustCompile(`^(?:\d|[01]\d|2[0-3]):[0-5]\d$`)
	days         = []string{"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"}
	standardKeys = map[string]bool{
		"dedicated": true, "dedicated.deckhouse.io": true, "node-role.kubernetes.io/control-plane": true,
		"node-role.kubernetes.io/master": true, "node.deckhouse.io/etcd-arbiter": true,
	}
)

// policy judges changes of groups against the cluster.
type policy struct{ cluster *cluster }

// change is what a check looks at.
type change struct {
	name          string
	spec          *Spec
	old           *Spec // nil when a group is created
	configuration *configuration
	warnings      admission.Warnings
}

// ValidateCreate judges a new group.
func (p *policy) ValidateCreate(_ context.Context, group *NodeGroup) (admission.Warnings, error) {
	return p.judge(&change{name: group.Name, spec: &group.Spec})
}

// ValidateUpdate judges a changed group.
func (p *policy) ValidateUpdate(_ context.Context, old, group *NodeGroup) (admission.Warnings, error) {
	return p.judge(&change{name: group.Name, spec: &group.Spec, old: &old.Spec})
}

// ValidateDelete allows everything.
func (*policy) ValidateDelete(context.Context, *NodeGroup) (admission.Warnings, error) {
	return nil, nil
}

func (p *policy) judge(c *change) (admission.Warnings, error) {
	var err error
	if c.configuration, err = p.cluster.configuration(); err != nil {
		return nil, fmt.Errorf("failed to load cluster config: %w", err)
	}
	for _, check := range []func(*change) error{
		p.nameLength, replicaRange, maxPods, p.zones, criType, criSection, p.masterCRI, p.taints, rollingUpdate,
		nodeType, selector, duplicateTaints, topologyManager, p.customNodes, p.unsupportedNodes, windows,
	} {
		if err := check(c); err != nil {
			return nil, err
		}
	}
	return c.warnings, nil
}

func (p *policy) nameLength(c *change) error {
	if c.old != nil || c.configuration.ClusterType != "Cloud" {
		return nil
	}
	prefix := c.configuration.Cloud.Prefix
	if settings, err := p.cluster.globalSettings(); err == nil {
		if own, found := settings["prefix"].(string); found && own != "" {
			prefix = own
		}
	}
	if longest := 63 - len(prefix) - 1 - 21; len(c.name) > longest {
		return fmt.Errorf("it is forbidden for this cluster to set (cluster prefix + node group name) longer than "+
			"42 symbols; max nodegroup name length for this cluster is %d", longest)
	}
	return nil
}

func replicaRange(c *change) error {
	if instances := c.spec.CloudInstances; instances != nil && number(instances.MaxPerZone) < number(instances.MinPerZone) {
		return errors.New("it is forbidden to set maxPerZone lower than minPerZone for NodeGroup")
	}
	return nil
}

func maxPods(c *change) error {
	if kubelet := c.spec.Kubelet; kubelet != nil && kubelet.MaxPods != nil &&
		2**kubelet.MaxPods > 1<<(32-c.configuration.nodePrefix())-3 {
		c.warnings = append(c.warnings,
			fmt.Sprintf(".spec.kubelet.maxPods (%d) is too high: may lead to IP exhaustion", *kubelet.MaxPods))
	}
	return nil
}

func (p *policy) zones(c *change) error {
	if c.spec.CloudInstances == nil || len(c.spec.CloudInstances.Zones) == 0 {
		return nil
	}
	known, err := p.cluster.zones()
	if err != nil {
		return fmt.Errorf("failed to load provider cluster config: %w", err)
	}
	for _, zone := range c.spec.CloudInstances.Zones {
		if len(known) > 0 && !slices.Contains(known, zone) {
			return fmt.Errorf("unknown zone %q", zone)
		}
	}
	return nil
}

func criType(c *change) error {
	if c.spec.CRI != nil && is(c.spec.CRI.Type, docker) {
		return errors.New("it is forbidden to set cri type to Docker")
	}
	return nil
}

func criSection(c *change) error {
	cri := c.spec.CRI
	if cri == nil || cri.Type == nil || *cri.Type == "" {
		return nil
	}
	for _, section := range []struct {
		set         bool
		name, owner string
	}{
		{cri.Containerd != nil, "containerd", containerd},
		{cri.ContainerdV2 != nil, "containerdV2", containerdV2},
		{cri.Docker != nil, "docker", docker},
	} {
		if section.set && *cri.Type != section.owner {
			return fmt.Errorf("it is forbidden to set .spec.cri.%s without .spec.cri.type=%q", section.name, section.owner)
		}
	}
	return nil
}

func (c *change) isCRIChanged() bool {
	return c.old != nil && c.configuration.effectiveCRI(c.spec) != c.configuration.effectiveCRI(c.old)
}

func (p *policy) masterCRI(c *change) error {
	if c.name != "master" || !c.isCRIChanged() {
		return nil
	}
	if p.cluster.readyEndpoints() < 3 {
		c.warnings = append(c.warnings,
			"it is disruptive to change cri.type in master node group for cluster with apiserver endpoints < 3")
	}
	return nil
}

func (c *change) taints() []Taint {
	if c.spec.NodeTemplate == nil {
		return nil
	}
	return c.spec.NodeTemplate.Taints
}

func (p *policy) taints(c *change) error {
	if len(c.taints()) == 0 {
		return nil
	}
	tolerated, err := p.cluster.tolerationKeys()
	if err != nil {
		return fmt.Errorf("failed to load custom toleration keys: %w", err)
	}
	var missing []string
	for _, taint := range c.taints() {
		if key := word(taint.Key); !standardKeys[key] && !slices.Contains(tolerated, key) {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("it is forbidden to create a NodeGroup resource with taints not specified in ModuleConfig "+
			`"global" in the array .spec.settings.modules.placement.customTolerationKeys, add: %s to customTolerationKeys`,
			strings.Join(missing, ", "))
	}
	return nil
}

func rollingUpdate(c *change) error {
	if c.spec.Disruptions != nil && is(c.spec.Disruptions.ApprovalMode, "RollingUpdate") &&
		c.spec.NodeType != "CloudEphemeral" {
		return errors.New(`it is forbidden to set .spec.disruptions.approvalMode to "RollingUpdate" when spec.nodeType ` +
			`is not "CloudEphemeral"`)
	}
	return nil
}

func nodeType(c *change) error {
	if c.old != nil && c.old.NodeType != c.spec.NodeType {
		return errors.New(".spec.nodeType field is immutable")
	}
	return nil
}

func selector(c *change) error {
	if c.old == nil || c.spec.NodeType != "Static" && c.spec.NodeType != "CloudStatic" {
		return nil
	}
	if c.old.StaticInstances == nil || c.old.StaticInstances.LabelSelector == nil {
		return nil
	}
	old := c.old.StaticInstances.LabelSelector
	if len(old.MatchLabels) == 0 && len(old.MatchExpressions) == 0 {
		return nil
	}
	const text = ".spec.staticInstances.labelSelector can be added but cannot be %s once set. " +
		"To change it, create a new NodeGroup"
	if c.spec.StaticInstances == nil || c.spec.StaticInstances.LabelSelector == nil {
		return fmt.Errorf(text, "modified or removed")
	}
	found := c.spec.StaticInstances.LabelSelector
	if len(found.MatchLabels) == 0 && len(found.MatchExpressions) == 0 {
		return fmt.Errorf(text, "modified or removed")
	}
	if !reflect.DeepEqual(old, found) {
		return fmt.Errorf(text, "modified")
	}
	return nil
}

func duplicateTaints(c *change) error {
	seen := make(map[[2]string]bool, len(c.taints()))
	for _, taint := range c.taints() {
		key := [2]string{word(taint.Key), word(taint.Effect)}
		if seen[key] {
			return errors.New(".spec.nodeTemplate.taints must contain only one taint with the same key and effect")
		}
		seen[key] = true
	}
	return nil
}

func topologyManager(c *change) error {
	kubelet := c.spec.Kubelet
	if kubelet == nil || kubelet.TopologyManager == nil {
		return nil
	}
	manager := kubelet.TopologyManager
	on := word(manager.Policy) != "" && word(manager.Policy) != "None"
	if manager.Enabled != nil {
		on = *manager.Enabled
	}
	if !on {
		return nil
	}
	reservation := kubelet.ResourceReservation
	if reservation == nil || is(reservation.Mode, "Off") {
		return errors.New(".spec.kubelet.resourceReservation must be enabled for .spec.kubelet.topologyManager to work")
	}
	if is(reservation.Mode, "Static") && (reservation.Static == nil || reservation.Static.CPU == nil) {
		return errors.New(`for .spec.kubelet.topologyManager and .spec.kubelet.resourceReservation.mode == "Static", ` +
			".spec.kubelet.resourceReservation.static.cpu must be specified")
	}
	return nil
}

func (p *policy) customNodes(c *change) error {
	if !c.isCRIChanged() {
		return nil
	}
	if nodes := p.cluster.nodes(c.name, "node.deckhouse.io/containerd-config", "custom"); len(nodes) > 0 {
		return fmt.Errorf("CRI cannot be changed because some nodes are using custom configuration: %s",
			strings.Join(nodes, " "))
	}
	return nil
}

func (p *policy) unsupportedNodes(c *change) error {
	if c.old == nil {
		return nil
	}
	v2 := c.configuration.effectiveCRI(c.spec) == containerdV2
	swap := c.spec.Kubelet != nil && c.spec.Kubelet.MemorySwap != nil &&
		is(c.spec.Kubelet.MemorySwap.SwapBehavior, "LimitedSwap")
	if !v2 && !swap || len(p.cluster.nodes(c.name, "node.deckhouse.io/containerd-v2-unsupported", "")) == 0 {
		return nil
	}
	if v2 {
		return fmt.Errorf("It is forbidden for NodeGroup %q to use CRI ContainerdV2 because it contains nodes that do "+
			"not support ContainerdV2. You can list them with: kubectl get node -l "+
			"node.deckhouse.io/containerd-v2-unsupported,node.deckhouse.io/group=%s", c.name, c.name)
	}
	return fmt.Errorf("memorySwap requires cgroup v2, but NodeGroup %q contains nodes where cgroup v2 is not supported",
		c.name)
}

func windows(c *change) error {
	disruptions := c.spec.Disruptions
	if disruptions == nil {
		return nil
	}
	if disruptions.Automatic != nil {
		if err := checkWindows("automatic", disruptions.Automatic.Windows); err != nil {
			return err
		}
	}
	if disruptions.RollingUpdate != nil {
		return checkWindows("rollingUpdate", disruptions.RollingUpdate.Windows)
	}
	return nil
}

func checkWindows(mode string, all []Window) error {
	for i, window := range all {
		path := fmt.Sprintf(".spec.disruptions.%s.windows[%d]", mode, i)
		if !windowTime.MatchString(window.From) {
			return fmt.Errorf("%s.from: invalid time format %q, expected HH:MM", path, window.From)
		}
		if !windowTime.MatchString(window.To) {
			return fmt.Errorf("%s.to: invalid time format %q, expected HH:MM", path, window.To)
		}
		for _, day := range window.Days {
			if !slices.Contains(days, day) {
				return fmt.Errorf("%s.days: invalid day %q, expected one of %s", path, day, strings.Join(days, ","))
			}
		}
	}
	return nil
}

func number(value *int64) int64 {
	if value == nil {
		return 0
	}
	return *value
}

func word(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}
