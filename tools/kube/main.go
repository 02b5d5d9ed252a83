// One binary, many commands: it behaves as the Kubernetes or etcd program whose name it was started
// under, so that the packages they share are compiled, linked and stored once.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJob time zones, where the machine has no zone files

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectlcli "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	// kubectl's credential plugins register themselves.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kubectl":
		kubectl()
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	default:
		fmt.Fprintf(os.Stderr, "started as %q; start it through a link named etcd, kubectl, "+
			"kube-apiserver, kube-controller-manager or kube-scheduler\n", name)
		os.Exit(2)
	}
}

// kubectl differs from the servers: it prints its own errors and takes its exit code from them.
func kubectl() {
	// The verbosity counts while the command tree is built, before flags are parsed.
	_, _ = logs.GlogSetter(kubectlcli.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectlcli.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
