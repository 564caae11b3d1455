#include "base/exposition.h"

#include <fmt/format.h>
#include <prometheus/client_metric.h>
#include <prometheus/text_serializer.h>

#include <cmath>
#include <iterator>
#include <mutex>
#include <set>

#include "base/metric_families.h"
#include "base/text.h"

namespace verbena::metrics {
namespace {

struct Collectors {
  std::mutex mutex;
  std::vector<std::function<void(std::vector<Collected>&)>> all;
};
Collectors& collectors() {
  static auto* const instance = new Collectors;
  return *instance;
}

void add_collected(Families& families) {
  std::vector<Collected> collected;
  {
    auto& c = collectors();
    const std::lock_guard lock(c.mutex);
    for (const auto& collect : c.all) collect(collected);
  }
  for (const Collected& one : collected) {
    const auto type = one.is_gauge ? prometheus::MetricType::Gauge : prometheus::MetricType::Counter;
    prometheus::MetricFamily family{one.name, one.help, type, {}};
    for (const auto& sample : one.samples) {
      prometheus::ClientMetric metric;
      for (const auto& [key, value] : sample.labels) metric.label.push_back({key, value});
      (one.is_gauge ? metric.gauge.value : metric.counter.value) = sample.value;
      family.metric.push_back(std::move(metric));
    }
    families.all.push_back(std::move(family));
  }
}

// OpenMetrics 1.0, "Text Format": escapes are \\, \" and \n. The text writer of prometheus-cpp supports neither
// exemplars nor this format's names of counters.
class OpenMetrics {
 public:
  std::string write(const Families& families) {
    for (const auto& family : families.all) {
      if (family.type != prometheus::MetricType::Counter) taken_.insert(family.name);
    }
    for (size_t f = 0; f < families.all.size(); ++f) write_family(families, f);
    out_ += "# EOF\n";
    return std::move(out_);
  }

 private:
  static std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
      if (c == '\\' || c == '"') out += '\\';
      if (c == '\n') {
        out += "\\n";
      } else {
        out += c;
      }
    }
    return out;
  }
  static std::string number(double value) {
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    if (std::isnan(value)) return "NaN";
    return fmt::format("{}", value);
  }

  void write_family(const Families& families, size_t f) {
    const prometheus::MetricFamily& family = families.all[f];
    const bool counter = family.type == prometheus::MetricType::Counter;
    const bool histogram = family.type == prometheus::MetricType::Histogram;
    // A counter's family has its sample's name without _total. If a gauge has that name (open now, beside opened in
    // total), the two would collide: the counter is then written without its type.
    std::string_view name = family.name;
    constexpr std::string_view total = "_total";
    if (counter && name.ends_with(total)) name.remove_suffix(total.size());
    const bool typed = !counter || !taken_.contains(name);
    if (!typed) name = family.name;
    const char* const type = !typed ? "unknown" : counter ? "counter" : histogram ? "histogram" : "gauge";
    fmt::format_to(std::back_inserter(out_), "# TYPE {} {}\n", name, type);
    if (name.ends_with("_seconds")) fmt::format_to(std::back_inserter(out_), "# UNIT {} seconds\n", name);
    fmt::format_to(std::back_inserter(out_), "# HELP {} {}\n", name, escaped(family.help));
    for (size_t m = 0; m < family.metric.size(); ++m) {
      const prometheus::ClientMetric& metric = family.metric[m];
      if (histogram) {
        write_histogram(families, f, m);
      } else if (counter) {
        write_sample(family.name, metric, {}, number(metric.counter.value));
      } else {
        write_sample(family.name, metric, {}, number(metric.gauge.value));
      }
    }
  }

  void write_histogram(const Families& families, size_t f, size_t m) {
    const std::string& name = families.all[f].name;
    const prometheus::ClientMetric& metric = families.all[f].metric[m];
    for (size_t b = 0; b < metric.histogram.bucket.size(); ++b) {
      const auto& bucket = metric.histogram.bucket[b];
      const auto exemplar = families.exemplars.find({f, m, b});
      write_sample(name + "_bucket", metric, number(bucket.upper_bound), std::to_string(bucket.cumulative_count),
                   exemplar == families.exemplars.end() ? nullptr : &exemplar->second);
    }
    write_sample(name + "_count", metric, {}, std::to_string(metric.histogram.sample_count));
    write_sample(name + "_sum", metric, {}, number(metric.histogram.sample_sum));
  }

  void write_sample(std::string_view name, const prometheus::ClientMetric& metric, std::string_view bound,
                    std::string_view value, const Histogram::Exemplar* exemplar = nullptr) {
    out_ += name;
    char before = '{';
    for (const auto& label : metric.label) {
      fmt::format_to(std::back_inserter(out_), "{}{}=\"{}\"", before, label.name, escaped(label.value));
      before = ',';
    }
    if (!bound.empty()) {
      fmt::format_to(std::back_inserter(out_), "{}le=\"{}\"", before, bound);
      before = ',';
    }
    if (before == ',') out_ += '}';
    fmt::format_to(std::back_inserter(out_), " {}", value);
    if (exemplar != nullptr) {
      const std::string_view request(exemplar->request, sizeof exemplar->request);
      fmt::format_to(std::back_inserter(out_), " # {{request_id=\"{}\"}} {} {}.{:03}",
                     escaped(request.substr(0, request.find('\0'))), static_cast<double>(exemplar->ns) / 1e9,
                     exemplar->time_ms / 1000, exemplar->time_ms % 1000);
    }
    out_ += '\n';
  }

  std::set<std::string, std::less<>> taken_;  // names of families that are not counters
  std::string out_;
};

// "application/openmetrics-text;version=1.0.0;q=0.5" -> 0.5; unreadable or missing: 1.
bool is_refused(std::string_view parameters) {
  const size_t q = parameters.find("q=");
  if (q == std::string_view::npos) return false;
  const std::string_view value = parameters.substr(q + 2);
  return value.starts_with('0') && value.find_first_of("123456789") == std::string_view::npos;
}

}  // namespace

void collect_counters(std::function<void(std::vector<Collected>&)> collect) {
  auto& c = collectors();
  const std::lock_guard lock(c.mutex);
  c.all.push_back(std::move(collect));
}

Format format_of(std::string_view accept) {
  const std::string text = lower(accept);
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    std::string_view one = rest.substr(0, comma);
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    while (one.starts_with(' ')) one.remove_prefix(1);
    constexpr std::string_view wanted = "application/openmetrics-text";
    if (!one.starts_with(wanted)) continue;
    one.remove_prefix(wanted.size());
    if (one.empty() || one.front() == ';' || one.front() == ' ') {
      if (!is_refused(one)) return Format::open_metrics;
    }
  }
  return Format::text;
}

std::string_view content_type(Format format) {
  return format == Format::open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                        : "text/plain; version=0.0.4";
}

std::string exposition(Format format) {
  run_readers();
  Families families;
  add_values(families);
  add_histograms(families);
  add_collected(families);
  if (format == Format::open_metrics) return OpenMetrics().write(families);
  return prometheus::TextSerializer().Serialize(families.all);
}

}  // namespace verbena::metrics
