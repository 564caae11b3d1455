// The yardsticks of `verbena bench`, in rows of the same form.
#include <fmt/core.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <fstream>

#include "yardsticks/yardsticks.h"

namespace verbena::yardsticks {
namespace {

struct Arguments {
  std::vector<std::string> sizes{"4KiB", "64KiB", "1MiB", "16MiB"};
  std::vector<std::string> providers{"tcp"};
  std::vector<std::string> ops{"get", "put"};
  std::vector<std::string> concurrency{"1"};
  double seconds = 1;
  uint64_t count = 0;
  std::string fabtests = "auto", nginx = "auto", listen = "127.0.0.1", beside;
  NginxTls tls;
  bool json = false, perftest = false, no_memcpy = false, plain_sends = false, md5 = false;
};

class Run {
 public:
  explicit Run(const Arguments& arguments) : arguments_(arguments) {}
  int run() {
    if (!make_plan() || !read_beside()) return 2;
    if (!arguments_.json) fmt::print("{}\n", cli::bench_table_head());
    if (!arguments_.no_memcpy) measure_copies();
    if (arguments_.md5) measure_md5();
    if (arguments_.nginx == "on" || (arguments_.nginx == "auto" && nginx_is_there()))
      take("nginx", measure_nginx(plan_, arguments_.tls));
    if (arguments_.plain_sends) take("plain", measure_plain_sends(plan_));
    measure_fabrics();
    if (!arguments_.json) fmt::print("\n{}", ratios(rows_));
    return failed_ ? 1 : 0;
  }

 private:
  bool make_plan() {
    auto sizes = cli::parse_sizes(arguments_.sizes);
    if (!sizes) return complain("--sizes", sizes.error());
    auto concurrency = cli::parse_counts(arguments_.concurrency);
    if (!concurrency) return complain("--concurrency", concurrency.error());
    plan_.sizes = std::move(*sizes);
    plan_.concurrency = std::move(*concurrency);
    plan_.ops = arguments_.ops;
    plan_.duration = std::chrono::milliseconds(static_cast<int64_t>(arguments_.seconds * 1000));
    plan_.count = arguments_.count;
    return true;
  }
  bool read_beside() {
    if (arguments_.beside.empty()) return true;
    std::ifstream file(arguments_.beside);
    if (!file) return complain("--beside", "cannot read " + arguments_.beside);
    auto rows = parse_rows({std::istreambuf_iterator<char>(file), {}});
    if (!rows) return complain("--beside", rows.error());
    rows_ = std::move(*rows);
    return true;
  }
  void measure_copies() {
    for (const uint64_t size : plan_.sizes) {
      for (const unsigned concurrency : plan_.concurrency) show(measure_memcpy(size, concurrency, plan_));
    }
  }
  void measure_md5() {
    constexpr unsigned bodies = 16;
    for (const uint64_t size : plan_.sizes) {
      show(measure_md5_of_one(size, plan_));
      show(measure_md5_side_by_side(size, bodies, plan_));
    }
  }
  void measure_fabrics() {
    const std::string prefix = fabtests_prefix();
    for (const uint64_t size : plan_.sizes) {
      for (const std::string& provider : arguments_.providers) {
        if (prefix.empty() || (provider != "tcp" && provider != "verbs")) continue;
        take("fabtests", measure_fabtests(prefix, size, provider, arguments_.listen));
      }
      if (arguments_.perftest) take("perftest", measure_perftest(arguments_.listen, size));
    }
  }
  std::string fabtests_prefix() const {
    if (arguments_.fabtests == "off") return {};
    if (arguments_.fabtests != "auto") return arguments_.fabtests;
    const std::string built = VERBENA_LIBFABRIC_PREFIX;
    return ::access((built + "/bin/fi_rma_bw").c_str(), X_OK) == 0 ? built : std::string();
  }
  void take(const char* name, const Rows& rows) {
    if (!rows) {
      failed_ = true;
      complain(name, rows.error());
      return;
    }
    for (const BenchRow& row : *rows) show(row);
  }
  void show(const BenchRow& row) {
    rows_.push_back(row);
    fmt::print("{}\n", arguments_.json ? cli::bench_json(row) : cli::bench_table_line(row));
    std::fflush(stdout);
  }
  static bool complain(std::string_view subject, const std::string& text) {
    fmt::print(stderr, "yardsticks: {}: {}\n", subject, text);
    return false;
  }

  const Arguments& arguments_;
  BenchPlan plan_;
  std::vector<BenchRow> rows_;
  bool failed_ = false;
};

void add_options(CLI::App& app, Arguments& arguments) {
  app.add_option("--sizes", arguments.sizes, "bytes of one operation")->delimiter(',')->capture_default_str();
  app.add_option("--concurrency", arguments.concurrency, "callers at once")->delimiter(',')->capture_default_str();
  app.add_option("--ops", arguments.ops, "of nginx: get, put; get_new: each over a connection of its own")
      ->delimiter(',')
      ->check(CLI::IsMember({"get", "put", "get_new"}))
      ->capture_default_str();
  app.add_option("--providers", arguments.providers, "of libfabric's tests: tcp, verbs")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--duration", arguments.seconds, "seconds per row")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  app.add_option("--count", arguments.count, "operations per caller instead of --duration");
  app.add_option("--fabtests", arguments.fabtests, "prefix of libfabric's tests, auto, or off")
      ->type_name("PREFIX")
      ->capture_default_str();
  app.add_option("--nginx", arguments.nginx, "auto (where it is installed), on or off")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  app.add_option("--tls-certificate", arguments.tls.certificate, "of nginx, which then has TLS 1.3")->type_name("FILE");
  app.add_option("--tls-key", arguments.tls.key, "the certificate's key")->type_name("FILE");
  app.add_option("--listen", arguments.listen, "where libfabric's tests and perftest listen")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_flag("--perftest", arguments.perftest,
               "ib_write_bw, ib_read_bw and ib_write_lat on the RDMA device there, too");
  app.add_flag("--no-memcpy", arguments.no_memcpy, "without the memcpy rows");
  app.add_flag("--md5", arguments.md5, "MD5 by one core, of one body and of 16 side by side");
  app.add_flag("--plain-sends", arguments.plain_sends,
               "GETs from a server that does nothing but send bytes in memory, too");
  app.add_option("--beside", arguments.beside,
                 "what `verbena bench --json` printed: its ratios to these rows come last")
      ->type_name("FILE");
  app.add_flag("--json", arguments.json, "one JSON object per row");
  app.footer("fabtests print means, which stand under p50.");
}

}  // namespace
}  // namespace verbena::yardsticks

int main(int argc, char** argv) {
  CLI::App app("What Verbena's doors are held against: memcpy, MD5, nginx, libfabric's own tests, perftest");
  verbena::yardsticks::Arguments arguments;
  add_options(app, arguments);
  CLI11_PARSE(app, argc, argv);
  return verbena::yardsticks::Run(arguments).run();
}
