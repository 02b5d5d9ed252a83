// Prints how Go sees the types of pod templates and endpoints, for hashes that Kubernetes makes of Go's view of a value.
//
//	go run ./typetable > ../../src/quarterdeck/cluster/podset/gotypes.json
//	go run ./typetable hash < templates.jsonl     one JSON template a line: its hash, and with it its dump
//
// A struct is a list of fields: Go name, JSON name ("" for an embedded struct whose fields stand in the
// parent's JSON), type. Any other named type is what it is made of.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/controller"
	"k8s.io/utils/dump"
)

// Written by hand where they are used: their JSON is not their fields.
var opaque = map[string]bool{
	"resource.Quantity": true, "intstr.IntOrString": true, "v1.Time": true, "v1.FieldsV1": true,
}

var types = map[string]any{}

func visit(t reflect.Type) string {
	name := t.String()
	if _, known := types[name]; known || opaque[name] {
		return name
	}
	switch t.Kind() {
	case reflect.Struct:
		types[name] = nil // not to be visited again from within
		fields := [][3]string{}
		for i := range t.NumField() {
			field := t.Field(i)
			tag := strings.Split(field.Tag.Get("json"), ",")
			fields = append(fields, [3]string{field.Name, tag[0], visit(field.Type)})
		}
		types[name] = fields
	case reflect.Pointer, reflect.Slice:
		visit(t.Elem())
	case reflect.Map:
		visit(t.Elem())
		if t.Name() != "" {
			types[name] = "map[" + t.Key().String() + "]" + t.Elem().String()
		}
	default:
		if t.PkgPath() != "" {
			types[name] = t.Kind().String()
		}
	}
	return name
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "hash" {
		lines := bufio.NewScanner(os.Stdin)
		lines.Buffer(nil, 1<<24)
		for lines.Scan() {
			var decoded corev1.PodTemplateSpec
			if err := json.Unmarshal(lines.Bytes(), &decoded); err != nil {
				panic(err)
			}
			wire, err := decoded.Marshal() // as a controller gets it: over protobuf
			if err != nil {
				panic(err)
			}
			var template corev1.PodTemplateSpec
			if err := template.Unmarshal(wire); err != nil {
				panic(err)
			}
			out, _ := json.Marshal([]string{controller.ComputeHash(&template, nil), dump.ForHash(template)})
			fmt.Println(string(out))
		}
		return
	}
	visit(reflect.TypeOf(corev1.PodTemplateSpec{}))
	visit(reflect.TypeOf(corev1.EndpointSubset{}))
	lines := []string{}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		made, err := json.Marshal(types[name])
		if err != nil {
			panic(err)
		}
		lines = append(lines, fmt.Sprintf("%q:%s", name, made))
	}
	fmt.Println("{" + strings.Join(lines, ",\n") + "}")
}
