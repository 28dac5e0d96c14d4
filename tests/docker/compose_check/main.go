// Reads a compose file with the parser of docker compose itself, and prints the whole project as JSON.
//
//	compose_check FILE [PROFILE...]
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:2], cli.WithOsEnv, cli.WithDotEnv, cli.WithProfiles(os.Args[2:]))
	if err == nil {
		err = load(options)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func load(options *cli.ProjectOptions) error {
	project, err := options.LoadProject(context.Background())
	if err != nil {
		return err
	}
	printed, err := project.MarshalJSON()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(printed)
	return err
}
