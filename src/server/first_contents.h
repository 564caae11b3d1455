// The initial contents of a server: buckets by name, and objects from a folder's files.
#pragma once

#include <cstdint>
#include <expected>
#include <filesystem>
#include <string>
#include <vector>

namespace verbena::call {
struct Call;
}

namespace verbena::s3 {
struct Service;
}

namespace verbena::server {

struct FirstContents {
  std::vector<std::string> buckets{};  // created if missing
  std::filesystem::path seed{};        // FOLDER/BUCKET/KEY, keys with any number of slashes; empty: none
};

struct Filled {
  uint64_t buckets = 0, objects = 0, bytes = 0;
};

// Stores them by S3's own verbs, before any door is open. Blocks. A bucket that the caller already owns is no error.
// The error is a sentence for operators that names the bucket or the file.
std::expected<Filled, std::string> fill(s3::Service& service, const call::Call& caller, const FirstContents& contents);

}  // namespace verbena::server
