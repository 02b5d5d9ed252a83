// NodeGroup webhooks on controller-runtime, doing the work that benchmarks/nodegroup.py gives to ours: converting
// lists of NodeGroups between v1 and v1alpha1 without losing anything, and judging changes against the cluster.
//
//	nodegroup --cert-dir DIR --port PORT
//
// It prints one line, "ready", when it accepts connections.
package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

const group = "deckhouse.io"

func main() {
	certDir := flag.String("cert-dir", "", "directory with tls.crt and tls.key")
	port := flag.Int("port", 9443, "port to listen on")
	flag.Parse()
	log.SetLogger(logr.Discard())
	klog.LogToStderr(false)
	klog.SetLogger(logr.Discard())

	scheme := runtime.NewScheme()
	for version, object := range map[string]runtime.Object{"v1": &NodeGroup{}, "v1alpha1": &OldNodeGroup{}} {
		gv := schema.GroupVersion{Group: group, Version: version}
		scheme.AddKnownTypeWithName(gv.WithKind("NodeGroup"), object)
		metav1.AddToGroupVersion(scheme, gv)
	}

	server := webhook.NewServer(webhook.Options{Host: "127.0.0.1", Port: *port, CertDir: *certDir})
	server.Register("/convert", conversion.NewWebhookHandler(scheme, conversion.NewRegistry()))
	server.Register("/validate-nodegroup-policy",
		admission.WithValidator[*NodeGroup](scheme, &policy{cluster: newCluster()}))

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	go announce(*port)
	if err := server.Start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// announce says "ready" once a TLS handshake succeeds.
func announce(port int) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err == nil {
			connection.Close()
			fmt.Println("ready")
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
