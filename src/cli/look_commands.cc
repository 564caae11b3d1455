// ls and stat.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/date.h"
#include "cli/object_commands.h"
#include "cli/report.h"
#include "cli/s3_address.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {
namespace {

using nlohmann::ordered_json;

std::string iso_text(std::chrono::system_clock::time_point when) {
  return format_iso8601_seconds(std::chrono::floor<std::chrono::seconds>(when).time_since_epoch().count());
}

// "2026-01-02 03:04:05", for users.
std::string time_text(std::chrono::system_clock::time_point when) {
  const std::string iso = iso_text(when);
  return iso.substr(0, 10) + " " + iso.substr(11, 8);
}

// Keys may be invalid UTF-8, which must not end the program.
std::string dump(const ordered_json& json) { return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace); }

std::string size_text(uint64_t size, bool human) { return human ? format_size(size) : fmt::format("{}", size); }

void show_object(const ObjectInfo& info, const LookArguments& arguments) {
  if (arguments.json) {
    const ordered_json json{
        {"key", info.key}, {"size", info.size}, {"etag", info.etag}, {"last_modified", iso_text(info.last_modified)}};
    fmt::print("{}\n", dump(json));
  } else {
    fmt::print("{}  {:>14}  {}\n", time_text(info.last_modified), size_text(info.size, arguments.human),
               for_output(info.key));
  }
}

int list_buckets(const Client& client, const LookArguments& arguments) {
  auto buckets = client.buckets();
  if (!buckets) return report("ls", buckets.error());
  for (const BucketInfo& bucket : *buckets) {
    if (arguments.json) {
      fmt::print("{}\n", dump(ordered_json{{"bucket", bucket.name}, {"created", iso_text(bucket.created)}}));
    } else {
      fmt::print("{}  s3://{}\n", time_text(bucket.created), for_output(bucket.name));
    }
  }
  return exit_ok;
}

}  // namespace

int run_ls(const LookArguments& arguments) {
  std::expected<S3Address, std::string> address = S3Address{};
  if (!arguments.address.empty()) {
    address = parse_s3_address(arguments.address);
    if (!address) return report(arguments.address, address.error(), exit_usage);
  }
  int exit_code = exit_ok;
  auto client = arguments.client.connect(exit_code);
  if (!client) return exit_code;
  if (address->bucket.empty()) return list_buckets(*client, arguments);

  ListOptions options;
  options.prefix = address->key;
  if (!arguments.recursive) options.delimiter = "/";
  size_t found = 0;
  for (;;) {
    auto page = client->list(address->bucket, options);
    if (!page) return report(arguments.address, page.error());
    for (const std::string& prefix : page->common_prefixes) {
      if (arguments.json) {
        fmt::print("{}\n", dump(ordered_json{{"prefix", prefix}}));
      } else {
        fmt::print("{:>19}  {:>14}  {}\n", "", "PREFIX", for_output(prefix));
      }
    }
    for (const ObjectInfo& info : page->objects) show_object(info, arguments);
    found += page->objects.size() + page->common_prefixes.size();
    if (!page->truncated) break;
    options.continuation = page->continuation;
  }
  if (found == 0 && !address->key.empty()) {
    return report(arguments.address, "no key begins with this", exit_not_found);
  }
  return exit_ok;
}

int run_stat(const LookArguments& arguments) {
  auto address = parse_s3_address(arguments.address);
  if (!address) return report(arguments.address, address.error(), exit_usage);
  if (address->key.empty()) return report(arguments.address, "the key is missing: s3://BUCKET/KEY", exit_usage);
  int exit_code = exit_ok;
  auto client = arguments.client.connect(exit_code);
  if (!client) return exit_code;
  auto info = client->head(address->bucket, address->key);
  if (!info) return report(arguments.address, info.error());
  if (arguments.json) {
    ordered_json json{{"bucket", address->bucket},
                      {"key", info->key},
                      {"size", info->size},
                      {"etag", info->etag},
                      {"content_type", info->content_type},
                      {"last_modified", iso_text(info->last_modified)},
                      {"checksum", info->checksum},
                      {"metadata", ordered_json::object()}};
    for (const auto& [name, value] : info->metadata) json["metadata"][name] = value;
    fmt::print("{}\n", dump(json));
    return exit_ok;
  }
  fmt::print("{}\n  size           {} ({})\n  last modified  {} UTC\n  ETag           {}\n",
             for_output(address->text()), info->size, format_size(info->size), time_text(info->last_modified),
             for_output(info->etag));
  if (!info->content_type.empty()) fmt::print("  content type   {}\n", for_output(info->content_type));
  if (!info->checksum.empty()) fmt::print("  checksum       {}\n", for_output(info->checksum));
  for (const auto& [name, value] : info->metadata) fmt::print("  meta {:<9} {}\n", for_output(name), for_output(value));
  return exit_ok;
}

}  // namespace verbena::cli
