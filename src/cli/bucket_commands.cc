// rm, mb and rb.
#include <fmt/core.h>

#include <optional>

#include "cli/object_commands.h"
#include "cli/report.h"
#include "cli/s3_address.h"
#include "cli/watch_terminal.h"
#include "client/outcome.h"

namespace verbena::cli {
namespace {

// Removes everything whose key begins with `from.key`. Returns the exit code; `removed` counts.
int remove_below(const Client& client, const S3Address& from, size_t& removed) {
  int worst = exit_ok;
  RunFailures failures;
  auto listed = client.for_each(from.bucket, from.key, [&](const ObjectInfo& info) {
    auto gone = client.remove(from.bucket, info.key);
    if (gone) {
      failures.succeeded();
      ++removed;
      return true;
    }
    worst = report(S3Address{from.bucket, info.key}.text(), gone.error());
    return !failures.ended_by(gone.error());
  });
  if (!listed) return report(from.text(), listed.error());
  return worst;
}

// Whether removing an object would leave its versions, and only hide it: as the first one tells. One that may not be
// read, or not without its customer's key, tells nothing, and may be removed all the same.
Outcome<bool> keeps_versions(const Client& client, const std::string& bucket) {
  std::optional<std::string> key;
  OUT_TRY(client.for_each(bucket, "", [&](const ObjectInfo& info) {
    key = info.key;
    return false;
  }));
  if (!key) return false;
  const auto info = client.head(bucket, *key);
  if (info) return !info->version_id.empty();
  switch (info.error().code) {
    case ErrorCode::no_such_key:  // removed meanwhile
    case ErrorCode::access_denied:
    case ErrorCode::invalid_argument:
      return false;
    default:
      return std::unexpected(info.error());
  }
}

// Parses all addresses before anything is done, then runs `each` for every one and returns the last failure.
template <class Fn>
int for_addresses(const BucketArguments& arguments, bool wants_key, Fn&& each) {
  std::vector<S3Address> addresses;
  for (const std::string& text : arguments.addresses) {
    auto address = parse_s3_address(text);
    if (!address) return report(text, address.error(), exit_usage);
    if (wants_key && address->key.empty()) return report(text, "the key is missing: s3://BUCKET/KEY", exit_usage);
    if (!wants_key && !address->key.empty() && !arguments.recursive) {
      return report(text, "expected s3://BUCKET without a key", exit_usage);
    }
    addresses.push_back(std::move(*address));
  }
  int worst = exit_ok;
  auto client = arguments.client.connect(worst);
  if (!client) return worst;
  for (const S3Address& address : addresses) {
    const int code = each(*client, address);
    if (code != exit_ok) worst = code;
  }
  return worst;
}

}  // namespace

int run_rm(const BucketArguments& arguments) {
  return for_addresses(arguments, !arguments.recursive, [&](const Client& client, const S3Address& address) -> int {
    if (!arguments.recursive) {
      auto gone = client.remove(address.bucket, address.key);
      return gone ? exit_ok : report(address.text(), gone.error());
    }
    size_t removed = 0;
    const int code = remove_below(client, address, removed);
    if (arguments.client.verbose) fmt::print(stderr, "{}: {} objects removed\n", shown(address.text()), removed);
    return code;
  });
}

int run_mb(const BucketArguments& arguments) {
  const auto durability = arguments.durability == "memory" ? BucketDurability::memory : BucketDurability::sync;
  const auto etags = arguments.etag == "fast" ? BucketEtags::fast : BucketEtags::md5;
  return for_addresses(arguments, false, [&](const Client& client, const S3Address& address) -> int {
    auto made = client.make_bucket(address.bucket, durability, etags);
    return made ? exit_ok : report(address.text(), made.error());
  });
}

int run_rb(const BucketArguments& arguments) {
  return for_addresses(arguments, false, [&](const Client& client, const S3Address& address) -> int {
    if (arguments.force) {
      const auto versions = keeps_versions(client, address.bucket);
      if (!versions) return report(address.text(), versions.error());
      if (*versions) {
        return report(address.text(), "the bucket has versions, which this does not remove: nothing was done",
                      exit_code_for(ErrorCode::bucket_not_empty));
      }
      size_t removed = 0;
      if (const int code = remove_below(client, address, removed); code != exit_ok) return code;
    }
    auto gone = client.remove_bucket(address.bucket);
    return gone ? exit_ok : report(address.text(), gone.error());
  });
}

}  // namespace verbena::cli
