// A tree made like another one: folders and prefixes, either way, many files at once.
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
  bool always = false;     // copy also what is the same
  bool size_only = false;  // times say nothing
  bool remove = false;     // what the source does not have
  // With `remove`: also when the source is a prefix that no key begins with, so that all of the target goes.
  bool allow_empty = false;
  bool dry_run = false;  // say what would be done
  unsigned jobs = 8;
  bool progress = true, verbose = false;
};
struct TreeDone {
  uint64_t copied = 0, bytes = 0, removed = 0, same = 0;
  int exit_code = 0;
};

// A file is copied when the other one is missing, of another size, or older (to the millisecond). It appears whole or
// not at all, so what was broken off goes on where it was when it is run again. Failures are reported, and the rest
// goes on, except when the next one would fare no better. Nothing is removed below a place that could not be listed
// whole.
TreeDone copy_tree(const Client& client, const TreePlace& from, const TreePlace& to, const TreeOptions& options);

// An object to another key, by way of this machine: bytes, content type and metadata.
Outcome<PutReply> copy_object(const Client& client, const S3Address& from, const S3Address& to);

}  // namespace verbena::cli
