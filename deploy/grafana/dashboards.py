#!/usr/bin/env python3
"""Makes the dashboards of this folder: one description, so that they look alike and name only metrics that exist.

    dashboards.py            write the JSON files beside this program
    dashboards.py --check    0: they are what this program makes, 1: they are not
"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
WIDTH = 24  # of a row, as Grafana counts
SOURCE = {"type": "prometheus", "uid": "${source}"}
WHERE = '{instance=~"$instance"}'


def where(*more):
    """A selector of the chosen servers: where('op="read"')."""
    return "{" + ", ".join(['instance=~"$instance"', *more]) + "}"


def rate(metric, *more):
    return f"rate({metric}{where(*more)}[$__rate_interval])"


def by(labels, expression):
    return f"sum by ({labels}) ({expression})"


def quantile(q, metric, labels, *more):
    return f"histogram_quantile({q}, {by('le, ' + labels, rate(metric + '_bucket', *more))})"


def graph(title, unit, *lines, width=12, stacked=False):
    """A panel of lines over time; `lines` are (expression, legend)."""
    targets = [{"datasource": SOURCE, "expr": expression, "legendFormat": legend, "refId": chr(ord("A") + i),
                "exemplar": "histogram_quantile" in expression} for i, (expression, legend) in enumerate(lines)]
    custom = {"fillOpacity": 10, "lineWidth": 1, "showPoints": "never",
              "stacking": {"mode": "normal" if stacked else "none", "group": "A"}}
    return {"type": "timeseries", "title": title, "width": width, "height": 8, "targets": targets,
            "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": custom}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi", "sort": "desc"}}}


def figure(title, unit, expression, thresholds=(), width=4, legend=""):
    """One number. `thresholds`: (from, colour)."""
    steps = [{"color": "green", "value": None}] + [{"color": colour, "value": value} for value, colour in thresholds]
    return {"type": "stat", "title": title, "width": width, "height": 4,
            "targets": [{"datasource": SOURCE, "expr": expression, "legendFormat": legend, "refId": "A"}],
            "fieldConfig": {"defaults": {"unit": unit, "thresholds": {"mode": "absolute", "steps": steps}}, "overrides": []},
            "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "value_and_name" if legend else "value"}}


LATENCY = "verbena_request_duration_seconds"

OVERVIEW = ("Verbena: overview", "verbena-overview", [
    figure("Servers", "none", "count(up" + where('job="verbena"') + " == 1)"),
    figure("Version", "none", by("version", "verbena_build_info" + WHERE), legend="{{version}}"),
    figure("Requests", "reqps", f"sum({rate(LATENCY + '_count')})"),
    figure("Answered 5xx", "percentunit",
           "sum(" + rate("verbena_http_requests_total", 'status="5xx"') + ")"
           f" / sum({rate('verbena_http_requests_total')})", [(0.001, "orange"), (0.01, "red")]),
    figure("Disk free", "percentunit", f"min(verbena_store_free_bytes{WHERE} / verbena_store_size_bytes{WHERE})"),
    figure("Damaged or refused reads", "none",
           f"sum(verbena_store_corrupt_reads_total{WHERE}) + sum(verbena_store_failed_reads_total{WHERE})", [(1, "red")]),
    graph("Requests by door and verb", "reqps", (by("door, verb", rate(LATENCY + "_count")), "{{door}} {{verb}}"), stacked=True),
    graph("Bytes of objects by door", "Bps", (by("door, direction", rate("verbena_door_bytes_total")), "{{door}} {{direction}}"),
          stacked=True),
    graph("GET and PUT, median", "s", (quantile(0.5, LATENCY, "door, verb, size", 'verb=~"get|put"'), "{{door}} {{verb}} {{size}}")),
    graph("GET and PUT, 99th percentile", "s",
          (quantile(0.99, LATENCY, "door, verb, size", 'verb=~"get|put"'), "{{door}} {{verb}} {{size}}")),
    graph("HTTP answers by status", "reqps", (by("status", rate("verbena_http_requests_total")), "{{status}}"), stacked=True),
    graph("Native requests answered by an error", "reqps", (by("op", rate("verbena_native_errors_total")), "{{op}}"), stacked=True),
])

DOORS = ("Verbena: doors and RDMA", "verbena-doors", [
    graph("Bytes of objects by what carried them", "Bps",
          (by("transport, direction", rate("verbena_transport_bytes_total")), "{{transport}} {{direction}}"), stacked=True),
    graph("Tokens that were declined or fell back", "reqps",
          (by("direction", rate("verbena_token_declines_total")), "declined {{direction}}"),
          (f"sum({rate('verbena_token_fallbacks_total')})", "GET fell back"),
          (f"sum({rate('verbena_token_failures_total')})", "PUT failed")),
    graph("Native bytes, inside messages or by windows", "Bps",
          (by("direction, way", rate("verbena_native_bytes_total")), "{{direction}} {{way}}"), stacked=True),
    graph("Transfers to and from windows", "s",
          (quantile(0.5, "verbena_fabric_transfer_seconds", "op"), "{{op}} median"),
          (quantile(0.99, "verbena_fabric_transfer_seconds", "op"), "{{op}} 99th percentile")),
    graph("Native messages dropped", "reqps", (by("reason", rate("verbena_native_dropped_total")), "{{reason}}")),
    graph("Native sessions", "none", (f"sum(verbena_native_sessions{WHERE})", "open"),
          (by("limit", rate("verbena_native_sessions_over_limit_total")), "over limit: {{limit}}, a second")),
    graph("HTTP connections", "none", (f"sum(verbena_http_connections{WHERE})", "open"),
          (by("door, limit", rate("verbena_http_connections_refused_total")), "refused a second: {{door}} {{limit}}")),
    graph("RDMA ports active", "none", (f"verbena_rdma_port_active{WHERE}", "{{instance}} {{device}}/{{port}}")),
    graph("RDMA ports' counters", "none", (by("device, port, counter", rate("verbena_rdma_port_counter_total")),
                                           "{{device}}/{{port}} {{counter}}")),
])

STORE = ("Verbena: memory and disk", "verbena-store", [
    graph("Waits, 99th percentile", "s", (quantile(0.99, "verbena_queue_wait_seconds", "queue"), "{{queue}}")),
    graph("Disk, 99th percentile", "s", (quantile(0.99, "verbena_disk_duration_seconds", "op"), "{{op}}")),
    graph("Disk, median", "s", (quantile(0.5, "verbena_disk_duration_seconds", "op"), "{{op}}")),
    graph("Disk calls", "ops", (by("op", rate("verbena_disk_duration_seconds_count")), "{{op}}")),
    graph("Hot tier: found", "percentunit",
          (f"sum({rate('verbena_cache_hits_total')}) / (sum({rate('verbena_cache_hits_total')})"
           f" + sum({rate('verbena_cache_misses_total')}))", "hits")),
    graph("Hot tier: held", "bytes", (f"sum by (instance) (verbena_cache_bytes{WHERE})", "{{instance}}")),
    graph("Waiting for memory, and refused", "none", (f"sum(verbena_memory_waiting{WHERE})", "wait now"),
          (by("reason", rate("verbena_memory_refusals_total")), "refused a second: {{reason}}")),
    graph("Commits, and how many share a sync", "ops", (f"sum({rate('verbena_store_commits_total')})", "commits"),
          (f"sum({rate('verbena_store_commit_groups_total')})", "groups")),
    graph("File system of the data", "bytes", (f"verbena_store_free_bytes{WHERE}", "free {{instance}}"),
          (f"verbena_store_size_bytes{WHERE}", "size {{instance}}")),
    graph("Device of the data", "bytes", (f"verbena_store_device_free_bytes{WHERE} + verbena_store_kept_bytes{WHERE}", "free {{instance}}"),
          (f"verbena_store_device_bytes{WHERE}", "size {{instance}}")),
    graph("Scrub: bytes read and checked", "Bps", (f"sum by (instance) ({rate('verbena_scrub_bytes_total')})", "{{instance}}")),
])

BUCKETS = ("Verbena: buckets", "verbena-buckets", [
    graph("Requests of the busiest buckets", "reqps", (by("bucket, op", rate("verbena_bucket_requests_total")), "{{bucket}} {{op}}"),
          width=24, stacked=True),
    graph("Read from them", "Bps", (by("bucket", rate("verbena_bucket_bytes_total", 'direction="out"')), "{{bucket}}"), stacked=True),
    graph("Written to them", "Bps", (by("bucket", rate("verbena_bucket_bytes_total", 'direction="in"')), "{{bucket}}"), stacked=True),
    graph("Kept by the largest buckets", "bytes", (f"max by (bucket) (verbena_bucket_stored_bytes{WHERE})", "{{bucket}}"), stacked=True),
    graph("Objects in them", "none", (f"max by (bucket) (verbena_bucket_stored_objects{WHERE})", "{{bucket}}"), stacked=True),
    graph("Kept in all", "bytes", (f"sum by (instance) (verbena_stored_bytes{WHERE})", "{{instance}}")),
    graph("Refused by quotas", "reqps", (by("quota", rate("verbena_quota_refusals_total")), "{{quota}}")),
])


def placed(panels):
    """The panels from left to right and down, numbered."""
    x = y = tallest = 0
    out = []
    for number, panel in enumerate(panels, 1):
        width, height = panel["width"], panel["height"]
        if x + width > WIDTH:
            x, y, tallest = 0, y + tallest, 0
        rest = {key: value for key, value in panel.items() if key not in ("width", "height")}
        out.append({"id": number, "datasource": SOURCE, "gridPos": {"x": x, "y": y, "w": width, "h": height}, **rest})
        x, tallest = x + width, max(tallest, height)
    return out


def dashboard(title, uid, panels):
    source = {"name": "source", "label": "Data source", "type": "datasource", "query": "prometheus", "hide": 0}
    instance = {"name": "instance", "label": "Server", "type": "query", "datasource": SOURCE, "multi": True, "includeAll": True,
                "allValue": ".*", "current": {"text": "All", "value": "$__all"}, "refresh": 2, "sort": 1,
                "query": {"query": "label_values(verbena_build_info, instance)", "refId": "instance"}}
    return {"title": title, "uid": uid, "tags": ["verbena"], "schemaVersion": 38, "editable": True, "timezone": "browser",
            "refresh": "30s", "time": {"from": "now-1h", "to": "now"}, "templating": {"list": [source, instance]},
            "links": [{"type": "dashboards", "tags": ["verbena"], "title": "Verbena", "asDropdown": True}],
            "panels": placed(panels)}


def files():
    """Name and text of each file."""
    for title, uid, panels in (OVERVIEW, DOORS, STORE, BUCKETS):
        yield f"{uid}.json", json.dumps(dashboard(title, uid, panels), indent=1) + "\n"


def main(words):
    stale = [name for name, text in files()
             if not (FOLDER / name).exists() or (FOLDER / name).read_text(encoding="utf-8") != text]
    if words == ["--check"]:
        for name in stale:
            print(f"{name} is not what dashboards.py makes: run it")
        return 1 if stale else 0
    for name, text in files():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
