// Pages of keys. Each does bounded work: a common prefix is skipped by one seek, however many keys it hides.
//
// A lister keeps its position: run() after would_block continues in the same view, when the rows are there. Each lister
// walks one table by one cursor, and opens no Moment: an engine's cursor is of one moment, so that a page shows a
// renamed object once. Over Ceph a cursor may take several fetches, and a page may mix rows of each of them: a key, or
// an upload, is shown as it was at one of them (docs/s3.md).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "store/catalogue.h"
#include "store/logic/bucket.h"

namespace verbena::store {

enum class PageState : uint8_t { incomplete, complete };

inline constexpr int page_max = 1000;  // entries and common prefixes of one page, whatever was requested

// The common prefix that hides `key`, up to and including the delimiter; empty when none does.
std::string_view common_prefix(std::string_view key, std::string_view prefix, std::string_view delimiter);

class ObjectLister {
 public:
  ObjectLister(std::shared_ptr<const Bucket> bucket, ListRequest request);
  // would_block also after `work_max` rows and seeks: run() goes on from there.
  Result<ListPage> run(View& rows, size_t work_max = SIZE_MAX);
  // Begins anew, in the view of the next run().
  void restart();

  static constexpr size_t seek_work = 16;  // rows that one seek is worth

 private:
  Result<PageState> step();
  PageState pass_damaged();
  Result<PageState> add_object(std::string_view key);
  Result<PageState> pass_object(std::string_view key);
  Result<bool> is_gone(std::string_view row) const;
  std::string last_shown() const;
  PageState add_prefix(std::string_view hidden);
  bool takes();
  PageState sink_is_full();

  const std::shared_ptr<const Bucket> bucket_;
  const ListRequest request_;
  int room_ = 0;
  size_t work_left_ = 0;
  ListPage page_;
  std::unique_ptr<Cursor> cursor_;
};

class UploadLister {
 public:
  UploadLister(std::shared_ptr<const Bucket> bucket, ListUploadsRequest request);
  Result<UploadPage> run(View& rows);

 private:
  void begin(View& rows);
  Result<PageState> step();
  Result<void> add_upload(std::string key, std::string upload_id);

  const std::shared_ptr<const Bucket> bucket_;
  const ListUploadsRequest request_;
  int room_;
  UploadPage page_;
  std::unique_ptr<Cursor> cursor_;
};

}  // namespace verbena::store
