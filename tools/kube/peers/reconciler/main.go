// A controller on controller-runtime, doing the work that benchmarks/reconcile.py gives to ours: every Widget
// gets one ConfigMap of its own and one write of its status.
//
//	reconciler --kubeconfig FILE --objects N [--workers 10]
//
// When N Widgets have been seen with the status they should have, it prints one line of JSON with what it did
// and waits to be ended, so that its processor time can be read.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach the cluster")
	objects := flag.Int("objects", 0, "how many Widgets there are")
	workers := flag.Int("workers", 10, "reconciles at a time")
	flag.Parse()
	log.SetLogger(logr.Discard())
	klog.LogToStderr(false)
	klog.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig, *objects, *workers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, objects, workers int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1 // no throttling by the client
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	addWidget(scheme)
	mgr, err := manager.New(config, manager.Options{
		Scheme:  scheme,
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = builder.ControllerManagedBy(mgr).
		For(&Widget{}).
		Owns(&corev1.ConfigMap{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(&reconciler{Client: mgr.GetClient(), wanted: objects, settled: map[types.NamespacedName]bool{}})
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

type reconciler struct {
	client.Client
	wanted  int
	runs    atomic.Int64
	errors  atomic.Int64
	mu      sync.Mutex
	settled map[types.NamespacedName]bool
}

// Reconcile makes the child and the status of one Widget.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	r.runs.Add(1)
	err := r.reconcile(ctx, request.NamespacedName)
	if err != nil {
		r.errors.Add(1)
	}
	return reconcile.Result{}, err
}

func (r *reconciler) reconcile(ctx context.Context, key types.NamespacedName) error {
	var widget Widget
	if err := r.Get(ctx, key, &widget); err != nil {
		return client.IgnoreNotFound(err)
	}
	child := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: widget.Name, Namespace: widget.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, child, func() error {
		child.Data = map[string]string{"size": fmt.Sprint(widget.Spec.Size), "text": widget.Spec.Text}
		return controllerutil.SetControllerReference(&widget, child, r.Scheme())
	})
	if err != nil {
		return err
	}
	status := WidgetStatus{Child: child.Name, Size: widget.Spec.Size, ObservedGeneration: widget.Generation}
	if widget.Status == status {
		r.settle(key)
		return nil
	}
	widget.Status = status
	return r.Status().Update(ctx, &widget)
}

// settle notes that a Widget is as it should be, and reports when all are.
func (r *reconciler) settle(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.settled)
	r.settled[key] = true
	if before < r.wanted && len(r.settled) == r.wanted {
		json.NewEncoder(os.Stdout).Encode(map[string]int64{"reconciles": r.runs.Load(), "errors": r.errors.Load()})
	}
}
