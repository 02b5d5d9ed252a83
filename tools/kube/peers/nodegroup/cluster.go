package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// cluster is the state that checks depend on, in memory. Reads give copies, as those of controller-runtime's cache
// do; what is parsed is parsed once per version of an object.
type cluster struct {
	clusterSecret  *corev1.Secret
	providerSecret *corev1.Secret
	endpoints      *corev1.Endpoints //nolint:staticcheck // what the real webhook reads
	heads          []*metav1.PartialObjectMetadata

	mutex         sync.Mutex // guards what is parsed
	parsedVersion string
	parsed        *configuration
	zonesVersion  string
	parsedZones   []string
}

// configuration is cluster-configuration.yaml.
type configuration struct {
	ClusterType string `json:"clusterType"`
	DefaultCRI  string `json:"defaultCRI"`
	Cloud       struct {
		Prefix string `json:"prefix"`
	} `json:"cloud"`
	NodePrefix any `json:"podSubnetNodeCIDRPrefix"`
}

// known is what the provider configuration lists; nothing here.
var known = struct{ permanent map[string]bool }{}

var errNotFound = errors.New("not found")

func newCluster() *cluster {
	return &cluster{
		clusterSecret: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "d8-cluster-configuration", Namespace: "kube-system", ResourceVersion: "1"},
			Data: map[string][]byte{
				"cluster-configuration.yaml": []byte("clusterType: Cloud\ncloud: {prefix: prod}\ndefaultCRI: Containerd\n"),
			},
		},
		providerSecret: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Name: "d8-provider-cluster-configuration", Namespace: "kube-system", ResourceVersion: "2",
			},
			Data: map[string][]byte{"cloud-provider-discovery-data.json": []byte(`{"zones": ["a", "b"]}`)},
		},
		endpoints: &corev1.Endpoints{}, //nolint:staticcheck // as above
	}
}

func (c *cluster) configuration() (*configuration, error) {
	secret := c.clusterSecret.DeepCopy()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.parsed != nil && c.parsedVersion == secret.ResourceVersion {
		return c.parsed, nil
	}
	var found configuration
	if err := yaml.Unmarshal(secret.Data["cluster-configuration.yaml"], &found); err != nil {
		return nil, fmt.Errorf("failed to parse cluster-configuration.yaml: %w", err)
	}
	c.parsed, c.parsedVersion = &found, secret.ResourceVersion
	return &found, nil
}

func (c *cluster) zones() ([]string, error) {
	secret := c.providerSecret.DeepCopy()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.zonesVersion == secret.ResourceVersion {
		return c.parsedZones, nil
	}
	var found struct {
		Zones []string `json:"zones"`
	}
	if err := json.Unmarshal(secret.Data["cloud-provider-discovery-data.json"], &found); err != nil {
		return nil, fmt.Errorf("failed to parse cloud-provider-discovery-data.json: %w", err)
	}
	c.parsedZones, c.zonesVersion = found.Zones, secret.ResourceVersion
	return found.Zones, nil
}

// globalSettings are those of ModuleConfig global, which this cluster has not.
func (*cluster) globalSettings() (map[string]any, error) { return nil, errNotFound }

func (c *cluster) tolerationKeys() ([]string, error) {
	settings, err := c.globalSettings()
	if errors.Is(err, errNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	modules, _ := settings["modules"].(map[string]any)
	placement, _ := modules["placement"].(map[string]any)
	keys, _ := placement["customTolerationKeys"].([]string)
	return keys, nil
}

func (c *cluster) readyEndpoints() int {
	count := 0
	for _, subset := range c.endpoints.DeepCopy().Subsets {
		count += len(subset.Addresses)
	}
	return count
}

func (c *cluster) nodes(group, label, value string) []string {
	var names []string
	for _, head := range c.heads {
		if found, set := head.Labels[label]; set && found == value && head.Labels["node.deckhouse.io/group"] == group {
			names = append(names, head.Name)
		}
	}
	return names
}

func (c *configuration) effectiveCRI(spec *Spec) string {
	if spec.CRI != nil && spec.CRI.Type != nil && *spec.CRI.Type != "" {
		return *spec.CRI.Type
	}
	if c.DefaultCRI != "" {
		return c.DefaultCRI
	}
	return containerd
}

func (c *configuration) nodePrefix() int64 {
	var prefix int64
	switch value := c.NodePrefix.(type) {
	case float64:
		prefix = int64(value)
	case string:
		prefix, _ = strconv.ParseInt(value, 10, 64)
	}
	if prefix < 1 || prefix > 32 {
		return 24
	}
	return prefix
}
