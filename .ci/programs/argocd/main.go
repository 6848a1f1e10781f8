// Argo CD's application controller, ApplicationSet controller or repository server: whichever its name or
// ARGOCD_BINARY_NAME says.
package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	sets "github.com/argoproj/argo-cd/v3/cmd/argocd-applicationset-controller/commands"
	repository "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
)

func main() {
	name := filepath.Base(os.Args[0])
	if said := os.Getenv("ARGOCD_BINARY_NAME"); said != "" {
		name = said
	}
	var command *cobra.Command
	switch name {
	case "argocd-application-controller":
		command = controller.NewCommand()
	case "argocd-applicationset-controller":
		command = sets.NewCommand()
	case "argocd-repo-server":
		command = repository.NewCommand()
	default:
		println("this is argocd-application-controller, argocd-applicationset-controller and argocd-repo-server")
		os.Exit(2)
	}
	if command.Execute() != nil {
		os.Exit(1)
	}
}
