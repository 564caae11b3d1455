// Pages of keys. Each call does bounded work: a common prefix is skipped by one seek, however many keys it hides.
#pragma once

#include "store/local/engine.h"

namespace verbena::store::local {

inline constexpr int page_max = 1000;  // entries and common prefixes of one page, whatever was asked for

// The common prefix that hides `key`, up to and including the delimiter; empty when none does.
std::string_view common_prefix(std::string_view key, std::string_view prefix, std::string_view delimiter);

Result<ListPage> list_objects(Engine& engine, const Bucket& bucket, const ListRequest& request);
Result<UploadPage> list_uploads(Engine& engine, const Bucket& bucket, const ListUploadsRequest& request);

}  // namespace verbena::store::local
