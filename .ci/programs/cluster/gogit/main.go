// Clones a repository with go-git, shallow if asked, and prints the commit that it has checked out.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/go-git/go-git/v5"
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: gogit URL FOLDER DEPTH")
		os.Exit(2)
	}
	depth, err := strconv.Atoi(os.Args[3])
	if err == nil {
		var repository *git.Repository
		repository, err = git.PlainClone(os.Args[2], false, &git.CloneOptions{URL: os.Args[1], Depth: depth})
		if err == nil {
			head, failed := repository.Head()
			if failed == nil {
				fmt.Println(head.Hash())
			}
			err = failed
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
