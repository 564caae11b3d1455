// The table of configuration keys.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <type_traits>

#include "base/config.h"
#include "base/config_yaml.h"
#include "base/text.h"

namespace verbena {
namespace {

std::string parse_bool(bool& into, const std::string& text) {
  if (text == "true" || text == "yes" || text == "on" || text == "1") return into = true, "";
  if (text == "false" || text == "no" || text == "off" || text == "0") return into = false, "";
  return "not true or false";
}

template <class N>
std::string parse_number(N& into, const std::string& text, uint64_t low, uint64_t high) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < low || value > high) {
    return "not a number from " + std::to_string(low) + " to " + std::to_string(high);
  }
  into = static_cast<N>(value);
  return "";
}

template <class N>
std::string parse_optional(std::optional<N>& into, const std::string& text, uint64_t low, uint64_t high) {
  N value{};
  auto wrong = parse_number(value, text, low, high);
  if (wrong.empty()) into = value;
  return wrong;
}

template <class N>
std::string parse_auto(std::optional<N>& into, const std::string& text, uint64_t low, uint64_t high) {
  into.reset();
  if (text == "auto") return "";
  const auto wrong = parse_optional(into, text, low, high);
  return wrong.empty() ? "" : wrong + ", nor auto";
}

std::string parse_bytes(uint64_t& into, const std::string& text, uint64_t low, uint64_t high) {
  const auto value = parse_size(text);
  if (!value || *value < low || *value > high) {
    return "not a size from " + format_size(low) + " to " + format_size(high);
  }
  into = *value;
  return "";
}

std::string parse_auto_bytes(std::optional<uint64_t>& into, const std::string& text, uint64_t low, uint64_t high) {
  into.reset();
  if (text == "auto") return "";
  const auto wrong = parse_bytes(into.emplace(0), text, low, high);
  return wrong.empty() ? "" : wrong + ", nor auto";
}

template <class Duration>
std::string parse_duration(Duration& into, const std::string& text, uint64_t low, uint64_t high) {
  uint64_t value = 0;
  auto wrong = parse_number(value, text, low, high);
  if (wrong.empty()) into = Duration(value);
  return wrong;
}

std::string parse_list(std::vector<std::string>& into, const std::string& text, size_t items_max) {
  std::vector<std::string> items;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    std::string item = text.substr(at, comma - at);
    while (!item.empty() && item.front() == ' ') item.erase(item.begin());
    while (!item.empty() && item.back() == ' ') item.pop_back();
    if (!item.empty()) items.push_back(std::move(item));
    at = comma + 1;
  }
  if (items.size() > items_max) return "more than " + std::to_string(items_max) + " items";
  into = std::move(items);
  return "";
}

std::string parse_text(std::string& into, const std::string& text) {
  if (text.size() > 1024) return "longer than 1024 characters";
  into = text;
  return "";
}

// In the form in which host names are compared: lower case, without the dot that ends a full name.
std::string parse_domain(std::string& into, const std::string& text) {
  std::string wrong = parse_text(into, lower(text));
  if (wrong.empty() && into.ends_with('.')) into.pop_back();
  return wrong;
}

std::string parse_level(log::Level& into, const std::string& text) {
  static constexpr std::array<std::string_view, 5> names{"trace", "debug", "info", "warn", "error"};
  const auto it = std::find(names.begin(), names.end(), text);
  if (it == names.end()) return "not one of trace, debug, info, warn, error";
  into = static_cast<log::Level>(it - names.begin());
  return "";
}

std::string parse_engine(EngineChoice& into, const std::string& text) {
  if (text != "local" && text != "rados") return "not local or rados";
  into = text == "local" ? EngineChoice::local : EngineChoice::rados;
  return "";
}

// A choice by its word: `names` are those of the enumeration's values, in their order.
template <class Choice, size_t n>
std::string parse_choice(Choice& into, const std::string& text, const std::array<std::string_view, n>& names) {
  const auto it = std::ranges::find(names, text);
  if (it == names.end()) return fmt::format("not one of {}", fmt::join(names, ", "));
  into = static_cast<Choice>(it - names.begin());
  return "";
}

std::string parse_disk_io(DiskIo& into, const std::string& text) {
  return parse_choice(into, text, std::array<std::string_view, 3>{"auto", "io_uring", "threads"});
}

}  // namespace

std::string parse_rdma_encryption(RdmaEncryption& into, const std::string& text) {
  return parse_choice(into, text, std::array<std::string_view, 3>{"off", "preferred", "required"});
}

namespace {

std::string parse_names(std::vector<std::string>& into, const std::string& text,
                        std::span<const std::string_view> known) {
  std::vector<std::string> items;
  if (auto wrong = parse_list(items, text, known.size()); !wrong.empty()) return wrong;
  for (const auto& item : items) {
    if (std::ranges::find(known, item) != known.end()) continue;
    std::string names;
    for (const auto name : known) names += (names.empty() ? "" : ", ") + std::string(name);
    return "'" + log::printable(item, 32) + "' is not one of " + names;
  }
  if (items.empty()) return "no provider named";
  into = std::move(items);
  return "";
}

std::string parse_providers(std::vector<std::string>& into, const std::string& text) {
  static constexpr std::array<std::string_view, 6> known{"auto", "verbs", "efa", "cxi", "tcp", "local"};
  return parse_names(into, text, known);
}

std::string parse_token_providers(std::vector<std::string>& into, const std::string& text) {
  static constexpr std::array<std::string_view, 8> known{"auto", "none", "verbs", "efa", "cxi", "tcp", "rc", "dc"};
  std::vector<std::string> items;
  if (auto wrong = parse_names(items, text, known); !wrong.empty()) return wrong;
  if (items.size() > 1 && std::ranges::find(items, "none") != items.end()) return "'none' stands alone";
  into = std::move(items);
  return "";
}

std::string parse_on_off(bool& into, const std::string& text) {
  // YAML 1.1 reads `on` and `off` as booleans, and some tools write them so.
  if (text != "on" && text != "off" && text != "true" && text != "false") return "not on or off";
  into = text == "on" || text == "true";
  return "";
}

// A partition key as sysfs shows it, "0x8001". The highest bit, full membership, is no part of the partition's number.
std::string parse_pkey(std::optional<uint16_t>& into, const std::string& text) {
  uint16_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data() + std::min<size_t>(2, text.size()), end, value, 16);
  const bool sound = text.starts_with("0x") && error == std::errc() && read == end && (value & 0x7fff) != 0;
  if (!sound) return "not a partition key from 0x0001 to 0xffff, like 0x8001";
  into = value;
  return "";
}

std::string parse_gid_index(std::string& into, const std::string& text) {
  int index = 0;
  if (text != "auto" && !parse_number(index, text, 0, 255).empty()) return "not 'auto' or a number from 0 to 255";
  into = text;
  return "";
}

// The name is part of ARNs.
std::string parse_voucher_name(std::string& into, const std::string& text) {
  const auto named = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  if (text.empty() || text.size() > 64 || !std::ranges::all_of(text, named)) {
    return "not a name of at most 64 letters, digits, '-', '_' and '.'";
  }
  into = text;
  return "";
}

std::string parse_port_range(uint16_t& into_first, uint16_t& into_last, const std::string& text) {
  const size_t dash = text.find('-');
  uint16_t first = 0;
  uint16_t last = 0;
  if (dash == std::string::npos || !parse_number(first, text.substr(0, dash), 1, 65535).empty() ||
      !parse_number(last, text.substr(dash + 1), 1, 65535).empty() || last < first) {
    return "not a range like 9101-9116";
  }
  into_first = first;
  into_last = last;
  return "";
}

// Words of lower-case letters and digits with single dashes between them, short enough to leave room for a bucket's
// own name.
std::string parse_zone(std::string& into, const std::string& text) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  const bool sound = !text.empty() && text.size() <= 32 && std::ranges::all_of(text, plain) && text.front() != '-' &&
                     text.back() != '-' && text.find("--") == std::string::npos;
  if (!sound) return "not a zone like local1-az1";
  into = text;
  return "";
}

std::string parse_when_full(bool& drop, const std::string& text) {
  if (text != "refuse" && text != "drop") return "not refuse or drop";
  drop = text == "drop";
  return "";
}

std::string parse_default_encryption(std::string& into, const std::string& text) {
  if (text != "none" && text != "AES256") return "not none or AES256";
  into = text;
  return "";
}

std::string parse_ratio(double& into, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || !(value >= 0 && value <= 1)) return "not a number from 0 to 1";
  into = value;
  return "";
}

std::string parse_collector(std::string& into, const std::string& text) {
  if (!text.empty() && !text.starts_with("http://") && !text.starts_with("https://")) {
    return "not an address like http://127.0.0.1:4318";
  }
  return parse_text(into, text);
}

// The issuer becomes part of a header, and of addresses that a browser makes.
std::string parse_issuer(std::string& into, const std::string& text) {
  constexpr std::string_view begin = "https://", marks = "-._~:/[]";
  const auto plain = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || marks.contains(c);
  };
  const bool sound = text.starts_with(begin) && text.size() > begin.size() && text[begin.size()] != '/' &&
                     text.size() <= 512 && std::ranges::all_of(text, plain);
  if (!text.empty() && !sound) return "not an address like https://id.example.com/realm";
  return parse_text(into, text);
}

using C = Config;
using S = const std::string;

const std::array keys{
    ConfigKey{"domain", "", "virtual-host addressing: a request for `bucket.DOMAIN` names that bucket",
              [](C& c, S& t) { return parse_domain(c.domain, t); }},
    ConfigKey{"region", "us-east-1", "the region that the server reports",
              [](C& c, S& t) { return parse_text(c.region, t); }},
    ConfigKey{"arena_size", "256 MiB",
              "memory for objects' bytes in transfer and in the hot tier, registered with every fabric",
              [](C& c, S& t) { return parse_bytes(c.arena_size, t, 16 * MiB, 4 * TiB); }},
    ConfigKey{"arena_client_max", "0",
              "most of the arena that one client address may hold; 0: half of what transfers share",
              [](C& c, S& t) { return parse_bytes(c.arena_client_max, t, 0, 4 * TiB); }},
    ConfigKey{"cores", "0", "threads with an event loop each; 0: one for each CPU, at most 16",
              [](C& c, S& t) { return parse_number(c.cores, t, 0, 256); }},
    ConfigKey{"pin_cores", "false", "pin each core's thread to a CPU",
              [](C& c, S& t) { return parse_bool(c.pin_cores, t); }},
    ConfigKey{"blocking_threads", "8", "threads for calls that block (index, file metadata)",
              [](C& c, S& t) { return parse_number(c.blocking_threads, t, 1, 256); }},
    ConfigKey{"index_cache", "256 MiB", "memory for blocks of the index: names, heads and bytes of small objects",
              [](C& c, S& t) { return parse_bytes(c.index_cache, t, 8 * MiB, 4 * TiB); }},
    ConfigKey{
        "bounds_memory", "auto",
        "memory for the orders by which bounded buckets evict, about 240 bytes and the key for each object; auto: "
        "an eighth of the machine's",
        [](C& c, S& t) { return parse_auto_bytes(c.bounds_memory, t, 0, 4 * TiB); }},
    ConfigKey{"disk_io", "auto", "how data is read: io_uring, threads, or auto (io_uring where the machine allows it)",
              [](C& c, S& t) { return parse_disk_io(c.disk_io, t); }},
    ConfigKey{"log_level", "info", "trace, debug, info, warn or error",
              [](C& c, S& t) { return parse_level(c.log_level, t); }},
    ConfigKey{"lifecycle_day", "86400",
              "length of a day for lifecycle rules, in seconds; shorter ones are for test suites",
              [](C& c, S& t) { return parse_duration(c.lifecycle_day, t, 1, 86'400); }},
    ConfigKey{"buckets_max", "10000", "buckets that one account may have, directory buckets among them",
              [](C& c, S& t) { return parse_number(c.buckets_max, t, 1, 10'000'000); }},
    ConfigKey{"bucket_log_interval", "300", "seconds until the log records of a bucket are delivered as an object",
              [](C& c, S& t) { return parse_duration(c.bucket_log_interval, t, 1, 3600); }},
    ConfigKey{"scrub_rate", "8 MiB", "bytes per second that are read to find damage, while the disk has time; 0: none",
              [](C& c, S& t) { return parse_bytes(c.scrub_rate, t, 0, 64 * GiB); }},
    ConfigKey{"scrub_rest", "86400", "seconds from the end of one scrub of everything to the start of the next",
              [](C& c, S& t) { return parse_duration(c.scrub_rest, t, 0, 31'536'000); }},
    ConfigKey{"accept_data_loss", "false",
              "start although acknowledged changes are damaged or missing, with what can be read; for one start",
              [](C& c, S& t) { return parse_bool(c.accept_data_loss, t); }},
    ConfigKey{"access_log", "off",
              "a line of JSON for each request of every door: `off`, `-` (standard output) or a file",
              [](C& c, S& t) { return parse_text(c.access_log, t); }},
    ConfigKey{"access_log_size_max", "64 MiB", "an access log of this size is moved to FILE.1; 0: never",
              [](C& c, S& t) { return parse_bytes(c.access_log_size_max, t, 0, TiB); }},
    ConfigKey{"access_log_files", "8", "how many moved access logs are kept: FILE.1 to FILE.8",
              [](C& c, S& t) { return parse_number(c.access_log_files, t, 1, 1000); }},

    ConfigKey{"engine", "local", "where objects are kept: local (the data directory) or rados (a Ceph cluster)",
              [](C& c, S& t) { return parse_engine(c.engine, t); }},
    ConfigKey{"data.device", "",
              "block device that keeps the bytes of objects, made by `verbena device format`; the index stays in the "
              "data directory; empty: all is there",
              [](C& c, S& t) { return parse_text(c.device, t); }},
    ConfigKey{
        "data.keep_free", "auto",
        "freed space that the store keeps, to use it again in place; auto: a twentieth of the file system, at most "
        "16 GiB; 0: all goes back to the file system at once",
        [](C& c, S& t) { return parse_auto_bytes(c.keep_free, t, 0, 64 * TiB); }},
    ConfigKey{"data.pmem", "",
              "a folder of a DAX file system on persistent memory, or a device-dax node that `verbena device format` "
              "has made ready: small objects of `sync` buckets are durable there without a sync of the disk; default: "
              "none",
              [](C& c, S& t) { return parse_text(c.pmem, t); }},
    ConfigKey{"rados.conf", "", "the cluster's ceph.conf; default: where Ceph looks for it",
              [](C& c, S& t) { return parse_text(c.rados.conf, t); }},
    ConfigKey{"rados.user", "admin", "the server's name in the cluster, without `client.`",
              [](C& c, S& t) { return parse_text(c.rados.user, t); }},
    ConfigKey{"rados.pool", "verbena.data", "pool of the objects' bytes, replicated or erasure-coded",
              [](C& c, S& t) { return parse_text(c.rados.pool, t); }},
    ConfigKey{"rados.index_pool", "verbena.index", "pool of the index, replicated",
              [](C& c, S& t) { return parse_text(c.rados.index_pool, t); }},
    ConfigKey{"rados.namespace", "", "namespace in both pools: each is a store of its own",
              [](C& c, S& t) { return parse_text(c.rados.name_space, t); }},
    ConfigKey{"rados.timeout", "10", "seconds that one call to the cluster may take",
              [](C& c, S& t) { return parse_duration(c.rados.timeout, t, 3, 600); }},
    ConfigKey{"rados.keep", "true",
              "answer for frequently read objects from memory under a read lease, without asking the cluster",
              [](C& c, S& t) { return parse_bool(c.rados.keep, t); }},
    ConfigKey{"rados.split_rows", "100000", "a tablet with more rows than this is split in two",
              [](C& c, S& t) { return parse_number(c.rados.split_rows, t, 4, 1'000'000); }},
    ConfigKey{"cache.size", "auto",
              "the hot tier, objects that stay in memory: bytes of the arena, auto (half of it), or 0 for none",
              [](C& c, S& t) { return parse_auto_bytes(c.cache.size, t, 0, 4 * TiB); }},
    ConfigKey{"cache.object_size_max", "16 MiB", "larger objects do not stay in memory",
              [](C& c, S& t) { return parse_bytes(c.cache.object_size_max, t, 4 * KiB, GiB); }},

    ConfigKey{"http.address", "127.0.0.1", "where the S3 door listens",
              [](C& c, S& t) { return parse_text(c.http.address, t); }},
    ConfigKey{"http.port", "9000", "the S3 door's port; 0: any free one",
              [](C& c, S& t) { return parse_number(c.http.port, t, 0, 65535); }},
    ConfigKey{"http.header_bytes_max", "64 KiB", "longest request head",
              [](C& c, S& t) { return parse_bytes(c.http.header_bytes_max, t, 8 * KiB, MiB); }},
    ConfigKey{"http.connections_max", "10000",
              "HTTP connections at once, over all cores; 64 of them, or a sixteenth if that is fewer, are for this "
              "machine alone",
              [](C& c, S& t) { return parse_number(c.http.connections_max, t, 1, 1'000'000); }},
    ConfigKey{"http.connections_per_client_max", "2500",
              "HTTP connections from one address, or one IPv6 /64; 0: no limit",
              [](C& c, S& t) { return parse_number(c.http.connections_per_client_max, t, 0, 1'000'000); }},
    ConfigKey{"http.idle_timeout", "75", "seconds that a connection may be idle between requests",
              [](C& c, S& t) { return parse_duration(c.http.idle_timeout, t, 1, 86'400); }},
    ConfigKey{"http.header_timeout", "30", "seconds from a request's first byte to the end of its head",
              [](C& c, S& t) { return parse_duration(c.http.header_timeout, t, 1, 3600); }},
    ConfigKey{"http.body_timeout", "60", "seconds without a byte of a body, in either direction",
              [](C& c, S& t) { return parse_duration(c.http.body_timeout, t, 1, 3600); }},
    ConfigKey{"http.body_rate_min", "1 KiB",
              "bytes per second that a body must move on average over http.body_timeout; 0: none",
              [](C& c, S& t) { return parse_bytes(c.http.body_rate_min, t, 0, GiB); }},
    ConfigKey{"http.wrong_signatures_max", "32",
              "wrong signatures that one address (or IPv6 /64) may send for one key at once, then one every 2 s; "
              "loopback is exempt; 0: no limit",
              [](C& c, S& t) { return parse_number(c.http.wrong_signatures_max, t, 0, 100'000); }},

    ConfigKey{"listeners", "",
              "rules for clients of some networks: a list of entries with networks, encryption, accounts and address",
              [](C& c, S& t) { return parse_listeners(c.listeners, t); }, false, false, true},

    ConfigKey{"admin.enabled", "true", "the admin listener: health, metrics and the console",
              [](C& c, S& t) { return parse_bool(c.admin.enabled, t); }},
    ConfigKey{"admin.address", "127.0.0.1",
              "where the admin listener listens; metrics need the root key's signature, except on loopback under a "
              "name of loopback",
              [](C& c, S& t) { return parse_text(c.admin.address, t); }},
    ConfigKey{"admin.port", "",
              "the admin listener's port; 0: any free one; empty: 9001, or a free one if that is taken",
              [](C& c, S& t) { return parse_optional(c.admin.port, t, 0, 65535); }},
    ConfigKey{"admin.open_metrics", "false",
              "metrics without a signature for everything that reaches this listener, as Prometheus reads them",
              [](C& c, S& t) { return parse_bool(c.admin.open_metrics, t); }},
    ConfigKey{"admin.console", "false",
              "the console at `/console` of the S3 door too; pages stored in buckets then run no scripts in browsers",
              [](C& c, S& t) { return parse_bool(c.admin.console, t); }},
    ConfigKey{"admin.console_provider", "",
              "OpenID Connect issuer by which people sign in to the console, as https://id.example.com/realm",
              [](C& c, S& t) { return parse_issuer(c.admin.console_provider, t); }},
    ConfigKey{"admin.console_client", "", "the console's client id at that issuer: a public client with PKCE",
              [](C& c, S& t) { return parse_text(c.admin.console_client, t); }},
    ConfigKey{"admin.console_role", "", "ARN of the role for people who name no other one",
              [](C& c, S& t) { return parse_text(c.admin.console_role, t); }},
    ConfigKey{"admin.bucket_metrics", "20", "how many buckets metrics name: those with most traffic; 0: none",
              [](C& c, S& t) { return parse_number(c.admin.bucket_metrics, t, 0, 1000); }},

    ConfigKey{"traces.endpoint", "",
              "OpenTelemetry collector for traces (OTLP over HTTP), as http://127.0.0.1:4318; empty: no traces",
              [](C& c, S& t) { return parse_collector(c.traces.endpoint, t); }},
    ConfigKey{"traces.sample_ratio", "0.01",
              "fraction of the requests, 0 to 1, that are traced although their callers trace nothing",
              [](C& c, S& t) { return parse_ratio(c.traces.sample_ratio, t); }},
    ConfigKey{"traces.per_second_max", "100", "traces each second; those that callers ask for are at most half of them",
              [](C& c, S& t) { return parse_number(c.traces.per_second_max, t, 1, 100'000); }},
    ConfigKey{"traces.headers", "", "headers for the collector, name=value with commas between them",
              [](C& c, S& t) { return parse_text(c.traces.headers, t); }, false, true},

    ConfigKey{"encryption.key_file", "", "file of the master keys, mode 0600; empty: DIR/master.keys",
              [](C& c, S& t) { return parse_text(c.encryption.key_file, t); }},
    ConfigKey{"encryption.default", "none",
              "encryption of new objects where neither request nor bucket names one: none or AES256 (SSE-S3)",
              [](C& c, S& t) { return parse_default_encryption(c.encryption.by_default, t); }},
    ConfigKey{"encryption.kms_keys", "", "ids of the KMS keys; empty: any plain name is a key's id",
              [](C& c, S& t) { return parse_list(c.encryption.kms_keys, t, 256); }, true},
    ConfigKey{"encryption.kms_default_key", "", "KMS key of requests that name none; empty: such requests are refused",
              [](C& c, S& t) { return parse_text(c.encryption.kms_default_key, t); }},
    ConfigKey{"encryption.customer_keys_need_tls", "false",
              "refuse customers' keys (SSE-C) over plain HTTP, as AWS does",
              [](C& c, S& t) { return parse_bool(c.encryption.customer_keys_need_tls, t); }},

    ConfigKey{
        "events.targets", "",
        "targets of bucket notifications: NAME=URL each (http, redis, nats, mqtt, amqp, kafka, file; docs/events.md); "
        "a target's ARN is arn:verbena:sqs::NAME:TYPE, where TYPE is webhook or the URL's scheme",
        [](C& c, S& t) { return parse_list(c.events.targets, t, 32); }, true},
    ConfigKey{"events.secrets", "",
              "file of lines `NAME SECRET`: bearer tokens of webhooks, USER:PASSWORD of other targets",
              [](C& c, S& t) { return parse_text(c.events.secrets, t); }},
    ConfigKey{"events.allow_private", "",
              "targets that may have private, link-local or loopback addresses; for others such addresses are refused",
              [](C& c, S& t) { return parse_list(c.events.allow_private, t, 32); }, true},
    ConfigKey{"events.ca_file", "", "PEM file of the authorities that certify targets with TLS; empty: the system's",
              [](C& c, S& t) { return parse_text(c.events.ca_file, t); }},
    ConfigKey{"events.timeout", "10", "seconds that a target may take to confirm",
              [](C& c, S& t) { return parse_duration(c.events.timeout, t, 1, 300); }},
    ConfigKey{"events.queue_max", "1000000",
              "events that may wait for one target; one account's take at most as many as are still free",
              [](C& c, S& t) { return parse_number(c.events.queue_max, t, 2, 1'000'000'000); }},
    ConfigKey{"events.queue_bytes_max", "1 GiB", "bytes of events that may wait for one target",
              [](C& c, S& t) { return parse_bytes(c.events.queue_bytes_max, t, 64 * KiB, TiB); }},
    ConfigKey{
        "events.when_full", "refuse",
        "when a target's queue is full: refuse the change (503 SlowDown), so that no event is lost, or drop the event",
        [](C& c, S& t) { return parse_when_full(c.events.drop_when_full, t); }},

    ConfigKey{"s3_express.enabled", "true",
              "directory buckets (S3 Express One Zone), their sessions, append and rename",
              [](C& c, S& t) { return parse_bool(c.s3_express.enabled, t); }},
    ConfigKey{"s3_express.zone", "local1-az1", "the zone in names of directory buckets: BASE--ZONE--x-s3",
              [](C& c, S& t) { return parse_zone(c.s3_express.zone, t); }},

    ConfigKey{"sign_in.web_identity", "true",
              "roles for holders of a token from an OpenID Connect provider that an account has registered",
              [](C& c, S& t) { return parse_bool(c.sign_in.web_identity, t); }},
    ConfigKey{"sign_in.networks", "",
              "networks (CIDR) in which OpenID Connect providers may be; elsewhere their keys are fetched from public "
              "addresses only",
              [](C& c, S& t) { return parse_list(c.sign_in.networks, t, 64); }, true},
    ConfigKey{"sign_in.ca_file", "", "PEM file of authorities that may certify providers, besides the system's",
              [](C& c, S& t) { return parse_text(c.sign_in.ca_file, t); }},
    ConfigKey{"sign_in.ldap.url", "",
              "the directory whose people sign in by name and password: ldaps://HOST[:PORT], or ldap://, with "
              "StartTLS; empty: no such sign-in",
              [](C& c, S& t) { return parse_text(c.sign_in.ldap.url, t); }},
    ConfigKey{"sign_in.ldap.name", "directory",
              "the directory's name in roles' trust policies: arn:aws:iam::ACCOUNT:ldap/NAME",
              [](C& c, S& t) { return parse_voucher_name(c.sign_in.ldap.name, t); }},
    ConfigKey{"sign_in.ldap.insecure", "false",
              "ldap:// without TLS: anything that sees the traffic can read the passwords",
              [](C& c, S& t) { return parse_bool(c.sign_in.ldap.insecure, t); }},
    ConfigKey{"sign_in.ldap.ca_file", "", "PEM file of authorities that may certify the directory; empty: the system's",
              [](C& c, S& t) { return parse_text(c.sign_in.ldap.ca_file, t); }},
    ConfigKey{"sign_in.ldap.user_dn", "",
              "a person's entry, %s being the name (uid=%s,ou=people,dc=example,dc=org); if the name does not "
              "determine it, leave this empty and set the keys of a lookup",
              [](C& c, S& t) { return parse_text(c.sign_in.ldap.user_dn, t); }},
    ConfigKey{"sign_in.ldap.lookup_dn", "", "the entry as which the server binds to look up people and their groups",
              [](C& c, S& t) { return parse_text(c.sign_in.ldap.lookup_dn, t); }},
    ConfigKey{"sign_in.ldap.lookup_password_file", "",
              "a file with the password of sign_in.ldap.lookup_dn, readable by the server alone",
              [](C& c, S& t) { return parse_text(c.sign_in.ldap.lookup_password_file, t); }},
    ConfigKey{"sign_in.ldap.user_base", "", "the entry below which a lookup finds people",
              [](C& c, S& t) { return parse_text(c.sign_in.ldap.user_base, t); }},
    ConfigKey{"sign_in.ldap.user_filter", "(uid=%s)",
              "filter for a person's entry below sign_in.ldap.user_base, %s being the name",
              [](C& c, S& t) { return parse_text(c.sign_in.ldap.user_filter, t); }},
    ConfigKey{"sign_in.ldap.user_attribute", "uid",
              "the attribute of a person's entry that becomes the name of the session, and ldap:user in policies",
              [](C& c, S& t) { return parse_text(c.sign_in.ldap.user_attribute, t); }},
    ConfigKey{"sign_in.ldap.group_base", "", "the entry below which groups are; empty: groups are not looked up",
              [](C& c, S& t) { return parse_text(c.sign_in.ldap.group_base, t); }},
    ConfigKey{
        "sign_in.ldap.group_filter", "(&(objectClass=groupOfNames)(member=%d))",
        "filter for a person's groups below sign_in.ldap.group_base, %d being the entry's name and %s the person's",
        [](C& c, S& t) { return parse_text(c.sign_in.ldap.group_filter, t); }},
    ConfigKey{"sign_in.ldap.role", "", "ARN of the role for sign-ins that name none",
              [](C& c, S& t) { return parse_text(c.sign_in.ldap.role, t); }},
    ConfigKey{"sign_in.ldap.timeout", "10", "seconds that the directory may take for a sign-in",
              [](C& c, S& t) { return parse_duration(c.sign_in.ldap.timeout, t, 1, 60); }},
    ConfigKey{"sign_in.ldap.tries", "4",
              "wrong passwords for one name that are passed on to the directory before the server answers in its "
              "place; fewer than the directory locks an account after",
              [](C& c, S& t) { return parse_number(c.sign_in.ldap.tries, t, 1, 1000); }},
    ConfigKey{"sign_in.ldap.tries_every", "300", "seconds after which a wrong password no longer counts",
              [](C& c, S& t) { return parse_duration(c.sign_in.ldap.tries_every, t, 1, 86'400); }},
    ConfigKey{"sign_in.certificates.ca_file", "",
              "PEM file of the authority whose certificates machines sign in by; empty: no such sign-in. Needs "
              "tls.certificate",
              [](C& c, S& t) { return parse_text(c.sign_in.certificates.ca_file, t); }},
    ConfigKey{"sign_in.certificates.crl_file", "",
              "PEM file with the revocation lists of the authorities in sign_in.certificates.ca_file and each below "
              "them; empty: nothing is revoked",
              [](C& c, S& t) { return parse_text(c.sign_in.certificates.crl_file, t); }},
    ConfigKey{"sign_in.certificates.name", "machines",
              "the authority's name in roles' trust policies: arn:aws:iam::ACCOUNT:certificate/NAME",
              [](C& c, S& t) { return parse_voucher_name(c.sign_in.certificates.name, t); }},
    ConfigKey{"sign_in.certificates.address", "",
              "where a separate HTTPS listener asks clients for their certificates; empty: http.address",
              [](C& c, S& t) { return parse_text(c.sign_in.certificates.address, t); }},
    ConfigKey{"sign_in.certificates.port", "9443", "the certificate listener's port; 0: any free one",
              [](C& c, S& t) { return parse_number(c.sign_in.certificates.port, t, 0, 65535); }},

    ConfigKey{
        "tls.certificate", "",
        "PEM file with the certificate chain; with tls.key, S3 is HTTPS (the admin listener and rdma.port never are)",
        [](C& c, S& t) { return parse_text(c.tls.certificate, t); }},
    ConfigKey{"tls.key", "", "PEM file with the private key", [](C& c, S& t) { return parse_text(c.tls.key, t); }},

    ConfigKey{"dpu.enabled", "false", "this server runs on a DPU (BlueField, Pensando): checked, and said at start",
              [](C& c, S& t) { return parse_bool(c.dpu.enabled, t); }},
    ConfigKey{"dpu.enable_rdma", "false", "with dpu.enabled: refuse to start without an RDMA device of the DPU",
              [](C& c, S& t) { return parse_bool(c.dpu.enable_rdma, t); }},
    ConfigKey{"dpu.enable_crypto", "false",
              "with dpu.enabled and rdma.encryption: required: refuse to start if the DPU has no AES instructions",
              [](C& c, S& t) { return parse_bool(c.dpu.enable_crypto, t); }},

    ConfigKey{"gpudirect.enabled", "false",
              "load the drivers of NVIDIA and AMD at start, say what they have, and let their GPUs copy for clients on "
              "this host",
              [](C& c, S& t) { return parse_bool(c.gpudirect.enabled, t); }},
    ConfigKey{"gpudirect.rocm_handles", "false",
              "with gpudirect.enabled: take memory of AMD's GPUs by IPC handles, too, whose size the driver does not "
              "check: for clients that are trusted as the server is",
              [](C& c, S& t) { return parse_bool(c.gpudirect.rocm_handles, t); }},

    ConfigKey{"rdma.enabled", "true", "the native door and RDMA tokens",
              [](C& c, S& t) { return parse_bool(c.rdma.enabled, t); }},
    ConfigKey{"rdma.provider", "auto", "auto, verbs, efa, cxi, tcp, local, or a list in order of preference",
              [](C& c, S& t) { return parse_providers(c.rdma.provider, t); }, true},
    ConfigKey{"rdma.address", "127.0.0.1", "where the native door and the fabrics listen",
              [](C& c, S& t) { return parse_text(c.rdma.address, t); }},
    ConfigKey{"rdma.port", "9100", "the native door's port; 0: any free one",
              [](C& c, S& t) { return parse_number(c.rdma.port, t, 0, 65535); }},
    ConfigKey{"rdma.fabric_ports", "", "range for the fabrics' own listeners, like 9101-9116; empty: any",
              [](C& c, S& t) { return parse_port_range(c.rdma.fabric_port_first, c.rdma.fabric_port_last, t); }},
    ConfigKey{"rdma.tcp_encryption", "on",
              "the native door's tcp: on: TLS 1.3 under the session's keys; off: connections are authenticated, but "
              "payload is neither encrypted nor protected against changes (not with rdma.encryption: required)",
              [](C& c, S& t) { return parse_on_off(c.rdma.tcp_encryption, t); }},
    ConfigKey{"rdma.encryption", "preferred",
              "RDMA of the native door, and tokens over https: preferred: encrypted for clients that ask for it, "
              "plain for others; required: others are refused; off: never",
              [](C& c, S& t) { return parse_rdma_encryption(c.rdma.encryption, t); }},
    ConfigKey{"rdma.device_name", "", "RDMA device, like mlx5_0; empty: every usable one",
              [](C& c, S& t) { return parse_text(c.rdma.device_name, t); }},
    ConfigKey{"rdma.ib_port", "", "port of rdma.device_name",
              [](C& c, S& t) { return parse_optional(c.rdma.ib_port, t, 1, 255); }},
    ConfigKey{"rdma.gid_index", "auto", "entry of the port's GID table; its interface's address becomes the source",
              [](C& c, S& t) { return parse_gid_index(c.rdma.gid_index, t); }},
    ConfigKey{"rdma.pkey", "",
              "InfiniBand partition, like 0x8001: RDMA by an address of its IPoIB interface alone; empty: any",
              [](C& c, S& t) { return parse_pkey(c.rdma.pkey, t); }},
    ConfigKey{"rdma.vlan", "", "VLAN, like 100: RDMA by an address of its interface alone; empty: any",
              [](C& c, S& t) { return parse_optional(c.rdma.vlan, t, 1, 4094); }},
    ConfigKey{"rdma.enable_zero_copy", "true", "one-sided operations start in the memory that disk reads land in",
              [](C& c, S& t) { return parse_bool(c.rdma.enable_zero_copy, t); }},
    ConfigKey{"rdma.max_send_wr", "",
              "send work requests per queue pair; empty: 63, and 128 for an endpoint to all its peers",
              [](C& c, S& t) { return parse_optional(c.rdma.max_send_wr, t, 1, 1 << 20); }},
    ConfigKey{"rdma.max_recv_wr", "", "receive work requests per queue pair",
              [](C& c, S& t) { return parse_optional(c.rdma.max_recv_wr, t, 1, 1 << 20); }},
    ConfigKey{"rdma.max_sge", "", "scatter-gather entries per work request",
              [](C& c, S& t) { return parse_optional(c.rdma.max_sge, t, 1, 256); }},
    ConfigKey{"rdma.cq_size", "", "completion queue entries",
              [](C& c, S& t) { return parse_optional(c.rdma.cq_size, t, 1, 1 << 22); }},
    ConfigKey{"rdma.local_socket", "", "path prefix of the same-host sockets; empty: DIR/sockets/local.sock",
              [](C& c, S& t) { return parse_text(c.rdma.local_socket, t); }},
    ConfigKey{"rdma.token_provider", "auto",
              "what serves tokens: auto (RDMA devices), none, verbs, efa, cxi, tcp; with tcp any peer can crash the "
              "server; rc: reliable connections (hipobj-rc-v2, cuObject over RC); dc: cuObject's descriptors, on a "
              "ConnectX, untried on hardware",
              [](C& c, S& t) { return parse_token_providers(c.rdma.token_provider, t); }, true},
    ConfigKey{"rdma.token_networks", "",
              "networks (CIDR) that a token may make the server connect to besides the HTTP peer; addresses of the "
              "server's own host, loopback too, only if one of these networks holds them",
              [](C& c, S& t) { return parse_list(c.rdma.token_networks, t, 64); }, true},
    ConfigKey{"rdma.token_ports", "32768-65535", "ports that a token may make the server connect to",
              [](C& c, S& t) { return parse_port_range(c.rdma.token_port_first, c.rdma.token_port_last, t); }},
    ConfigKey{"rdma.operation_timeout_ms", "5000", "longest one-sided operation before its endpoint is closed",
              [](C& c, S& t) { return parse_duration(c.rdma.operation_timeout, t, 10, 600'000); }},
    ConfigKey{"rdma.inline_bytes_max", "4 KiB",
              "native door: longest payload that travels inside a message; over verbs at most 14 KiB",
              [](C& c, S& t) { return parse_bytes(c.rdma.inline_bytes_max, t, 0, 64 * KiB); }},
    ConfigKey{"rdma.connections_max", "2048",
              "connections at once to the native door's port, reserved like those of http.connections_max",
              [](C& c, S& t) { return parse_number(c.rdma.connections_max, t, 1, 1'000'000); }},
    ConfigKey{"rdma.connections_per_client_max", "512",
              "connections to the native door's port from one address, or one IPv6 /64; 0: no limit",
              [](C& c, S& t) { return parse_number(c.rdma.connections_per_client_max, t, 0, 1'000'000); }},
    ConfigKey{"rdma.sessions_max", "auto",
              "native sessions at once; the last sixteenth is reserved for the root key; auto: as many as fit in a "
              "sixteenth of the memory and a quarter of the open files",
              [](C& c, S& t) { return parse_auto(c.rdma.sessions_max, t, 1, 1'000'000); }},
    ConfigKey{"rdma.sessions_per_account_max", "auto",
              "native sessions of one account; the root key is exempt; auto: half of rdma.sessions_max; 0: no limit",
              [](C& c, S& t) { return parse_auto(c.rdma.sessions_per_account_max, t, 0, 1'000'000); }},
    ConfigKey{"rdma.sessions_per_client_max", "auto",
              "native sessions from one address, or one IPv6 /64; the root key is exempt; auto: half of "
              "rdma.sessions_max; 0: no limit",
              [](C& c, S& t) { return parse_auto(c.rdma.sessions_per_client_max, t, 0, 1'000'000); }},
    ConfigKey{"rdma.watches_max", "4096",
              "watches of native sessions at once, at most half of them of one account or one address; 0: none",
              [](C& c, S& t) { return parse_number(c.rdma.watches_max, t, 0, 1'000'000); }},
    ConfigKey{"rdma.watch_bytes_max", "32 MiB",
              "bytes of changes that wait for watches, at most half of them for one account or one address",
              [](C& c, S& t) { return parse_bytes(c.rdma.watch_bytes_max, t, 64 * KiB, TiB); }},
    ConfigKey{"rdma.credits", "64", "requests in flight per session",
              [](C& c, S& t) { return parse_number(c.rdma.credits, t, 1, 4096); }},
    ConfigKey{"rdma.session_idle_timeout", "300", "seconds that a native session may be idle",
              [](C& c, S& t) { return parse_duration(c.rdma.session_idle_timeout, t, 1, 86'400); }},
};

}  // namespace

std::span<const ConfigKey> config_keys() { return keys; }

}  // namespace verbena
