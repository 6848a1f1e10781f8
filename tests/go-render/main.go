// What a Go program does with the same templates and the same data: the measure of `cargo xtask bench render`.
//
// In: a JSON file with templates, composed configs and assignments, and how to parse: `once` for every
// template, or `each` time anew, as Kalypso does. Out: JSON with the seconds that rendering took, by the
// clock and of processors, and a digest over every file, so that the benchmark can see that both wrote
// the same bytes.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/Masterminds/sprig"
	"gopkg.in/yaml.v3"
)

type data struct {
	DeploymentTargetName string
	Namespace            string
	Environment          string
	Workspace            string
	Workload             string
	Labels               map[string]string
	Manifests            map[string]string
	ClusterType          string
	ConfigData           map[string]interface{}
}

type assignment struct {
	data
	Config    int
	Templates []string
}

type input struct {
	Templates   map[string][]string
	Configs     []string
	Assignments []assignment
}

func toYaml(value interface{}) string {
	text, err := yaml.Marshal(value)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(text), "\n")
}

func parse(text string) (*template.Template, error) {
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = toYaml
	return template.New("t").Option("missingkey=error").Funcs(functions).Parse(text)
}

type renderer struct {
	parsed map[string]*template.Template
}

func (r *renderer) render(text string, values *data) (string, error) {
	for {
		t := r.parsed[text]
		if t == nil {
			var err error
			if t, err = parse(text); err != nil {
				return "", err
			}
		}
		var out bytes.Buffer
		if err := t.Execute(&out, values); err != nil {
			return "", err
		}
		text = out.String()
		if !strings.Contains(text, "{{") {
			return text, nil
		}
	}
}

// What the process has used of all processors so far, its garbage collector among it.
func processorSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func run() error {
	bytes, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	var in input
	if err := json.Unmarshal(bytes, &in); err != nil {
		return err
	}
	configs := make([]map[string]interface{}, len(in.Configs))
	for at, text := range in.Configs {
		if err := yaml.Unmarshal([]byte(text), &configs[at]); err != nil {
			return err
		}
	}
	r := renderer{parsed: map[string]*template.Template{}}
	if os.Args[2] == "once" {
		for _, texts := range in.Templates {
			for _, text := range texts {
				if r.parsed[text], err = parse(text); err != nil {
					return err
				}
			}
		}
	}
	files := make([]string, 0, 3*len(in.Assignments))
	cpu := processorSeconds()
	start := time.Now()
	for at := range in.Assignments {
		one := &in.Assignments[at]
		one.ConfigData = configs[one.Config]
		for _, name := range one.Templates {
			texts := make([]string, 0, 2)
			for _, text := range in.Templates[name] {
				rendered, err := r.render(text, &one.data)
				if err != nil {
					return err
				}
				texts = append(texts, rendered)
			}
			files = append(files, strings.Join(texts, "---\n"))
		}
	}
	seconds := time.Since(start).Seconds()
	cpuSeconds := processorSeconds() - cpu
	hash := sha256.New()
	for _, file := range files {
		fmt.Fprintf(hash, "%d\n%s", len(file), file)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]interface{}{
		"seconds": seconds,
		"cpu":     cpuSeconds,
		"digest":  hex.EncodeToString(hash.Sum(nil)),
		"files":   len(files),
	})
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
