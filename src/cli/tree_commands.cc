// cp, sync, cat and du.
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "cli/bucket_usage.h"
#include "cli/object_commands.h"
#include "cli/report.h"
#include "cli/s3_address.h"
#include "cli/transfer_file.h"
#include "cli/tree_copy.h"
#include "cli/watch_terminal.h"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;

// Of prefixes.
bool overlap(const S3Address& one, const S3Address& other) {
  return one.bucket == other.bucket && (one.key.starts_with(other.key) || other.key.starts_with(one.key));
}

int copy_or_sync(const TreeArguments& arguments, bool always) {
  auto from = parse_tree_place(arguments.from), to = parse_tree_place(arguments.to);
  if (!from) return report(arguments.from, from.error(), exit_usage);
  if (!to) return report(arguments.to, to.error(), exit_usage);
  if (!from->s3 && !to->s3) return report(arguments.to, "one of both is s3://BUCKET/PREFIX", exit_usage);
  if (from->s3 && to->s3 && overlap(*from->s3, *to->s3)) {
    return report(arguments.to, "lies in FROM, or FROM in it: copies would be copied again", exit_usage);
  }
  int exit_code = exit_ok;
  auto client = arguments.client.connect(exit_code);
  if (!client) return exit_code;
  const TreeDone done = copy_tree(*client, *from, *to,
                                  {.always = always,
                                   .size_only = arguments.size_only,
                                   .remove = arguments.remove,
                                   .allow_empty = arguments.allow_empty,
                                   .dry_run = arguments.dry_run,
                                   .jobs = arguments.jobs,
                                   .progress = !arguments.client.quiet,
                                   .verbose = arguments.client.verbose});
  if (!arguments.client.quiet) {
    fmt::print(stderr, "{}{} copied ({}), {} removed, {} the same\n", arguments.dry_run ? "would be: " : "",
               done.copied, format_size(done.bytes), done.removed, done.same);
  }
  return done.exit_code;
}

int copy_between(const TreeArguments& arguments) {
  auto from = parse_s3_address(arguments.from), to = parse_s3_address(arguments.to);
  if (!from) return report(arguments.from, from.error(), exit_usage);
  if (!to) return report(arguments.to, to.error(), exit_usage);
  if (from->key.empty()) return report(arguments.from, "the key is missing (or use --recursive)", exit_usage);
  if (to->key.empty() || to->key.ends_with('/')) to->key += from->key.substr(from->key.rfind('/') + 1);
  int exit_code = exit_ok;
  auto client = arguments.client.connect(exit_code);
  if (!client) return exit_code;
  auto copied = copy_object(*client, *from, *to);
  if (!copied) return report(from->text(), copied.error());
  if (arguments.client.verbose) tell_transfer(to->text(), copied->transfer);
  return exit_ok;
}

}  // namespace

int run_sync(const TreeArguments& arguments) { return copy_or_sync(arguments, false); }

int run_cp(const TreeArguments& arguments) {
  if (arguments.recursive) return copy_or_sync(arguments, true);
  const bool from_s3 = is_s3_address(arguments.from), to_s3 = is_s3_address(arguments.to);
  if (from_s3 && to_s3) return copy_between(arguments);
  if (!from_s3 && !to_s3) return report(arguments.to, "one of both is s3://BUCKET/KEY", exit_usage);
  CopyArguments one;
  one.client = arguments.client;
  one.from = arguments.from;
  one.to = arguments.to;
  return from_s3 ? run_get(one) : run_put(one);
}

int run_cat(const BucketArguments& arguments) {
  std::vector<S3Address> addresses;
  for (const std::string& text : arguments.addresses) {
    auto address = parse_s3_address(text);
    if (!address) return report(text, address.error(), exit_usage);
    if (address->key.empty()) return report(text, "the key is missing: s3://BUCKET/KEY", exit_usage);
    addresses.push_back(std::move(*address));
  }
  int worst = exit_ok;
  auto client = arguments.client.connect(worst);
  if (!client) return worst;
  for (const S3Address& address : addresses) {
    auto got = download(*client, address.bucket, address.key, "-", PathFrom::caller, false);
    if (!got) {
      worst = report(address.text(), got.error());
    } else if (arguments.client.verbose) {
      tell_transfer(address.text(), got->transfer);
    }
  }
  return worst;
}

namespace {

struct Sum {
  uint64_t objects = 0, bytes = 0;
  std::optional<BucketUsage> counted;  // by the server
};

// As counted by the server, else by listing.
std::expected<Sum, ClientError> sum_up(const Client& client, const LookArguments& arguments, const S3Address& place) {
  Sum sum;
  if (place.key.empty() && !arguments.list) {
    const auto options = arguments.client.options();
    if (options) sum.counted = bucket_usage(*options, place.bucket);
    if (sum.counted) {
      sum.objects = sum.counted->objects;
      sum.bytes = sum.counted->bytes;
      return sum;
    }
  }
  auto listed = client.for_each(place.bucket, place.key, [&](const ObjectInfo& info) {
    ++sum.objects;
    sum.bytes += info.size;
    return true;
  });
  if (!listed) return std::unexpected(listed.error());
  return sum;
}

void show_sum(const Sum& sum, const LookArguments& arguments, const S3Address& place) {
  if (!arguments.json) {
    fmt::print("{:>14}  {:>10}  {}\n", arguments.human ? format_size(sum.bytes) : fmt::format("{}", sum.bytes),
               sum.objects, for_output(place.text()));
    return;
  }
  nlohmann::ordered_json json{{"place", place.text()}, {"objects", sum.objects}, {"bytes", sum.bytes}};
  if (sum.counted) {
    json["versions"] = sum.counted->versions;
    json["version_bytes"] = sum.counted->version_bytes;
    json["delete_markers"] = sum.counted->delete_markers;
    json["uploads"] = sum.counted->uploads;
    json["upload_bytes"] = sum.counted->upload_bytes;
  }
  fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

int run_du(const LookArguments& arguments) {
  if (!arguments.account.empty()) {
    return show_account_usage(arguments.client, arguments.account, arguments.human, arguments.json);
  }
  std::vector<S3Address> places;
  if (!arguments.address.empty()) {
    auto address = parse_s3_address(arguments.address);
    if (!address) return report(arguments.address, address.error(), exit_usage);
    places.push_back(std::move(*address));
  }
  int worst = exit_ok;
  auto client = arguments.client.connect(worst);
  if (!client) return worst;
  if (places.empty()) {
    auto buckets = client->buckets();
    if (!buckets) return report("du", buckets.error());
    for (const BucketInfo& bucket : *buckets) places.push_back({bucket.name, ""});
  }
  for (const S3Address& place : places) {
    const auto sum = sum_up(*client, arguments, place);
    if (!sum) {
      worst = report(place.text(), sum.error());
    } else if (sum->objects == 0 && !place.key.empty()) {
      worst = report(place.text(), "no key begins with this", exit_not_found);
    } else {
      show_sum(*sum, arguments, place);
    }
  }
  return worst;
}

}  // namespace verbena::cli
