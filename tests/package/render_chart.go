// Renders a Helm chart's templates as Helm does: text/template, sprig, and the handful of functions that Helm adds. Debian has no
// helm. Reads {"chart": FOLDER, "name": ..., "namespace": ..., "values": {...}, "secrets": {NAME: {...}}} and prints {FILE: TEXT}.
//
// Values are merged as Helm merges them: maps key by key, everything else replaced.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	yaml "gopkg.in/yaml.v3"
)

type asked struct {
	Chart, Name, Namespace string
	Values                 map[string]any
	Secrets                map[string]map[string]any
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func readYAML(path string) map[string]any {
	text, err := os.ReadFile(path)
	must(err)
	out := map[string]any{}
	must(yaml.Unmarshal(text, &out))
	return out
}

func merge(into, from map[string]any) {
	for key, value := range from {
		below, isMap := value.(map[string]any)
		have, hasMap := into[key].(map[string]any)
		if isMap && hasMap {
			merge(have, below)
		} else {
			into[key] = value
		}
	}
}

// Helm marshals by sigs.k8s.io/yaml: keys sorted, two spaces, no newline at the end.
func toYaml(value any) string {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	must(encoder.Encode(value))
	return strings.TrimSuffix(out.String(), "\n")
}

func main() {
	var in asked
	must(json.NewDecoder(os.Stdin).Decode(&in))
	chart := readYAML(filepath.Join(in.Chart, "Chart.yaml"))
	values := readYAML(filepath.Join(in.Chart, "values.yaml"))
	merge(values, in.Values)
	data := map[string]any{
		"Values":  values,
		"Chart":   map[string]any{"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]},
		"Release": map[string]any{"Name": in.Name, "Namespace": in.Namespace, "Service": "Helm"},
	}
	all := template.New("chart").Option("missingkey=error")
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = toYaml
	functions["include"] = func(name string, data any) (string, error) {
		var out bytes.Buffer
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	functions["fail"] = func(text string) (string, error) { return "", errors.New(text) }
	functions["lookup"] = func(_, kind, _, name string) map[string]any {
		if kind == "Secret" && in.Secrets[name] != nil {
			return map[string]any{"data": in.Secrets[name]}
		}
		return map[string]any{}
	}
	all.Funcs(functions)
	files, err := filepath.Glob(filepath.Join(in.Chart, "templates", "*"))
	must(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(err)
		_, err = all.New(filepath.Base(file)).Parse(string(text))
		must(err)
	}
	out := map[string]string{}
	for _, file := range files {
		if !strings.HasSuffix(file, ".yaml") {
			continue
		}
		var text bytes.Buffer
		must(all.ExecuteTemplate(&text, filepath.Base(file), data))
		out[filepath.Base(file)] = text.String()
	}
	must(json.NewEncoder(os.Stdout).Encode(out))
}
