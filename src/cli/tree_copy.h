// Copies one tree onto another: folders and prefixes, in either direction, many files at once.
#pragma once

#include <expected>
#include <filesystem>
#include <optional>
#include <string>

#include "cli/s3_address.h"
#include "verbena/client.h"

namespace verbena::cli {

// A folder, or a prefix that is empty or ends with '/'.
struct TreePlace {
  std::optional<S3Address> s3;
  std::filesystem::path folder;
  std::string text(std::string_view relative) const;
};
// "s3://b/p" is the prefix "p/". The error is a sentence.
std::expected<TreePlace, std::string> parse_tree_place(const std::string& text);

struct TreeOptions {
  bool always = false;     // also copy equal ones
  bool size_only = false;  // ignore times
  bool remove = false;     // remove files that the source lacks
  // With `remove`: also when the source is a prefix without any key, so that the whole target is removed.
  bool allow_empty = false;
  bool dry_run = false;  // only print the actions
  unsigned jobs = 8;
  bool progress = true, verbose = false;
};
struct TreeDone {
  uint64_t copied = 0, bytes = 0, removed = 0, same = 0;
  int exit_code = 0;
};

// A file is copied when the target is missing, of another size, or older (to the millisecond). It appears whole or not
// at all, so an interrupted copy continues when it is run again. Failures are reported and the rest continues, unless
// the next one would fail likewise. Nothing is removed below a place that could not be listed completely.
TreeDone copy_tree(const Client& client, const TreePlace& from, const TreePlace& to, const TreeOptions& options);

// Copies an object to another key through this machine: bytes, content type, the headers stored with it and metadata.
// As S3's own copy does, it leaves tags, rights, locks and the object's end behind.
Outcome<PutReply> copy_object(const Client& client, const S3Address& from, const S3Address& to);

}  // namespace verbena::cli
