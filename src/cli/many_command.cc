// get --many: the objects listed in a file, hundreds in each message.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "cli/object_commands.h"
#include "cli/report.h"
#include "cli/s3_address.h"
#include "cli/transfer_file.h"

namespace verbena::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t batch_bytes_max = 64u << 20;  // of memory; larger objects are fetched one by one

struct Wanted {
  std::string key, relative;  // relative to the prefix: the file's name below the folder
};

std::vector<Wanted> read_names(std::istream& in, const std::string& prefix) {
  std::vector<Wanted> wanted;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) wanted.push_back({prefix + line, line});
  }
  return wanted;
}

class Fetch {
 public:
  Fetch(const Client& client, const CopyArguments& arguments, std::string bucket, fs::path folder)
      : client_(client), arguments_(arguments), bucket_(std::move(bucket)), folder_(std::move(folder)) {}

  int run(const std::vector<Wanted>& wanted) {
    for (size_t at = 0; at < wanted.size() && !ends_; at += batch_items_max) {
      group(std::span(wanted).subspan(at, std::min(batch_items_max, wanted.size() - at)));
    }
    return worst_;
  }

 private:
  // Gets the sizes first, then the bytes, as many objects at once as fit the memory.
  void group(std::span<const Wanted> wanted) {
    std::vector<BatchItem> items;
    for (const Wanted& one : wanted) items.push_back({.bucket = bucket_, .key = one.key});
    std::vector<BatchResult> heads(items.size());
    if (auto looked = client_.head_many(items, heads); !looked) return failed("s3://" + bucket_, looked.error());
    std::vector<BatchItem> next;
    std::vector<const Wanted*> names;
    size_t bytes = 0;
    const auto flush = [&] {
      if (!next.empty()) batch(next, names, bytes);
      next.clear();
      names.clear();
      bytes = 0;
    };
    for (size_t i = 0; i < items.size(); ++i) {
      if (heads[i].error) {
        item_failed(wanted[i], *heads[i].error);
        continue;
      }
      failures_.succeeded();
      if (heads[i].size > batch_bytes_max) {
        single(wanted[i]);
      } else {
        if (bytes + heads[i].size > batch_bytes_max) flush();
        next.push_back({.bucket = bucket_, .key = wanted[i].key, .offset = bytes, .size = heads[i].size});
        names.push_back(&wanted[i]);
        bytes += heads[i].size;
      }
    }
    flush();
  }

  void batch(std::span<const BatchItem> items, std::span<const Wanted* const> names, size_t bytes) {
    auto buffer = client_.allocate(std::max<size_t>(bytes, 1));
    if (!buffer) return failed("s3://" + bucket_, buffer.error());
    std::vector<BatchResult> results(items.size());
    const auto got = client_.get_many(items, std::span(&*buffer, 1), results);
    if (!got) return failed("s3://" + bucket_, got.error());
    if (arguments_.client.verbose) {
      tell_transfer(fmt::format("s3://{}: {} objects", bucket_, items.size()), *got);
    }
    for (size_t i = 0; i < items.size(); ++i) {
      if (results[i].error == ErrorCode::buffer_too_small) {
        single(*names[i]);  // it has grown since
      } else if (results[i].error) {
        item_failed(*names[i], *results[i].error);
      } else {
        save(*names[i], buffer->bytes().subspan(items[i].offset, results[i].bytes));
      }
    }
  }

  std::optional<fs::path> place(const Wanted& wanted) {
    const auto path = local_path(folder_, wanted.relative);
    std::error_code ec;
    if (path) fs::create_directories(path->parent_path(), ec);
    if (path && !ec) return path;
    note(report("s3://" + bucket_ + "/" + wanted.key,
                path ? ec.message() : std::string("skipped: its key is not a safe file name"), exit_failure));
    return std::nullopt;
  }

  void save(const Wanted& wanted, std::span<const std::byte> bytes) {
    const auto path = place(wanted);
    if (!path) return;
    const auto saved = save_file(path->string(), bytes);
    if (!saved) failed("s3://" + bucket_ + "/" + wanted.key, saved.error());
  }

  void single(const Wanted& wanted) {
    const auto path = place(wanted);
    if (!path) return;
    const auto got = download(client_, bucket_, wanted.key, path->string(), PathFrom::key, false);
    if (!got) failed("s3://" + bucket_ + "/" + wanted.key, got.error());
  }

  void item_failed(const Wanted& wanted, ErrorCode code) {
    ClientError error;
    error.code = code;
    error.message = std::string(to_string(code));
    std::ranges::replace(error.message, '_', ' ');
    failed("s3://" + bucket_ + "/" + wanted.key, error);
  }
  void failed(const std::string& subject, const ClientError& error) {
    note(report(subject, error));
    ends_ = failures_.ended_by(error) || ends_;
  }
  void note(int code) {
    if (code != exit_ok) worst_ = code;
  }

  const Client& client_;
  const CopyArguments& arguments_;
  const std::string bucket_;
  const fs::path folder_;
  int worst_ = exit_ok;
  RunFailures failures_;
  bool ends_ = false;
};

}  // namespace

int run_get_many(const CopyArguments& arguments) {
  auto from = parse_s3_address(arguments.from);
  if (!from) return report(arguments.from, from.error(), exit_usage);
  std::vector<Wanted> wanted;
  if (arguments.many == "-") {
    wanted = read_names(std::cin, from->key);
  } else {
    std::ifstream file(arguments.many);
    if (!file) return report(arguments.many, "cannot be read", exit_not_found);
    wanted = read_names(file, from->key);
  }
  int exit_code = exit_ok;
  auto client = arguments.client.connect(exit_code);
  if (!client) return exit_code;
  Fetch fetch(*client, arguments, from->bucket, arguments.to.empty() ? fs::path(".") : fs::path(arguments.to));
  return fetch.run(wanted);
}

}  // namespace verbena::cli
