// A client-go informer that caches all pods of a cluster with a label and a field index, as
// benchmarks/informer.py has our cache do.
//
//	informer --kubeconfig FILE --objects N [--json]
//
// When N pods are there it prints one line of JSON: the processor time up to then, and the resident memory
// after a forced collection. Whether the pods come as a stream or as lists is client-go's choice; the
// environment variable KUBE_FEATURE_WatchListClient decides otherwise.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the cluster")
	objects := flag.Int("objects", 0, "how many pods there are")
	useJSON := flag.Bool("json", false, "ask for JSON instead of protobuf")
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig, *objects, *useJSON); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, objects int, useJSON bool) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no throttling by the client
	if !useJSON {
		config.ContentType = "application/vnd.kubernetes.protobuf"
		config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(clientset, 0)
	informer := factory.Core().V1().Pods().Informer()
	err = informer.AddIndexers(cache.Indexers{
		"app": func(object any) ([]string, error) {
			if value, ok := object.(*corev1.Pod).Labels["app"]; ok {
				return []string{value}, nil
			}
			return nil, nil
		},
		"node": func(object any) ([]string, error) {
			return []string{object.(*corev1.Pod).Spec.NodeName}, nil
		},
	})
	if err != nil {
		return err
	}
	started := time.Now()
	factory.Start(ctx.Done())
	for !informer.HasSynced() || len(informer.GetStore().ListKeys()) < objects {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
	elapsed, spent := time.Since(started), processorTime()
	some, err := informer.GetIndexer().ByIndex("app", "app-000")
	if err != nil {
		return err
	}
	runtime.GC()
	debug.FreeOSMemory()
	return json.NewEncoder(os.Stdout).Encode(map[string]float64{
		"objects": float64(len(informer.GetStore().ListKeys())),
		"indexed": float64(len(some)),
		"cpu":     spent.Seconds(),
		"wall":    elapsed.Seconds(),
		"rss":     float64(residentBytes()),
	})
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		panic(err)
	}
	var total, resident int64
	fmt.Fscan(strings.NewReader(string(text)), &total, &resident)
	return resident * int64(os.Getpagesize())
}
