// Rows for logic's looks. Missing rows are requested, and fetch() fetches all requested rows by one call for each
// tablet.
//
// Rows of one key are a snapshot: each call also reads the key's version token, and if that differs all earlier rows
// are dropped. So are rows read under a Moment: one call reads a tablet at one moment, and RADOS counts the changes of
// an object; if a later call finds another count, or a tablet read earlier has changed when another one is read, the
// moment is lost and earlier rows are dropped.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/catalogue.h"
#include "store/rados/cluster/attempt.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

class Rows final : public View {
 public:
  // `hold`: held by readers of blobs found here (garbage.h). `with_bytes`: fetch a head together with the key's newest
  // small blob.
  Rows(Registry& registry, const Place& place, std::shared_ptr<const void> hold, bool with_bytes);

  Result<std::string> get(Table table, std::string_view key) override;
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override;
  std::unique_ptr<Moment> moment() override;
  Result<std::string> get_inline(uint64_t blob);

  // Fetches the rows requested since the last call. internal: none were.
  Task<Result<void>> fetch();
  void ask_version_token() { version_token_asked_ = true; }
  // The key's stored version token, empty if there is none; nullopt: not fetched.
  const std::optional<std::string>& version_token() const { return version_token_; }
  // The requested documents of the bucket, in stored form; nullopt: none of that name.
  const std::map<std::string, std::optional<std::string>>& documents() const { return documents_; }
  // For a change, which compares the tablet's fence if there is no version token: fetches the fence too. Call before
  // the first fetch().
  void ask_fence() { fence_asked_ = true; }
  const std::string& fence() const { return fence_; }
  Result<VersionToken> decoded_version_token() const;  // of the fetched version token
  Result<uint64_t> greatest_id() const;                // an upper bound of the ids that the key ever had, likewise
  void forget();                                       // everything except the bucket

  const Place& place() const { return place_; }
  const BucketPtr& bucket() const { return bucket_; }
  void set_bucket(BucketPtr bucket) { bucket_ = std::move(bucket); }
  const std::shared_ptr<const void>& hold() const { return hold_; }

 private:
  friend class RowCursor;
  friend class RowsMoment;
  struct Page {
    std::vector<std::pair<std::string, std::string>> rows;  // in stored form
    std::string next;                                       // start of the next page
    bool last = false;
  };
  using PagePtr = std::shared_ptr<const Page>;
  struct PageName {
    std::string start, prefix;
    auto operator<=>(const PageName&) const = default;
  };
  struct Wanted;  // for one tablet
  struct Reply;

  PagePtr page(const PageName& name, uint64_t rows_max);  // null: requested
  Result<std::string> stored(const std::string& row);
  std::map<size_t, Wanted> sort() const;
  Task<Result<Attempt>> fetch_tablet(size_t tablet, Wanted wanted);  // again: everything must be requested anew
  Task<Result<void>> fetch_object(std::string object, std::set<std::string> names,
                                  std::map<std::string, std::optional<std::string>>& into);
  // Whether the tablet's change count fits the moment of everything read before.
  Task<> hold_moment(std::string object, uint64_t version, bool told);
  Task<bool> is_unchanged(std::string object, uint64_t version);
  void lose_moment();
  PagePtr make_page(const PageName& name, size_t tablet, std::map<std::string, Buffer>& found, bool more) const;

  Registry& registry_;
  const std::string key_;
  const Place place_;
  const std::shared_ptr<const void> hold_;
  const bool with_bytes_;
  BucketPtr bucket_;
  std::map<std::string, std::optional<std::string>> rows_, root_rows_, documents_;
  std::map<PageName, PagePtr> pages_;
  std::set<std::string> asked_, root_asked_, documents_asked_;
  std::map<PageName, uint64_t> pages_asked_;
  bool version_token_asked_ = false, fence_asked_ = false;
  std::optional<std::string> version_token_;
  // For a Moment: the tablets read so far, by their objects.
  struct Read {
    uint64_t version = 0;
    bool told = false;  // it had requested rows
  };
  bool holds_moment_ = false;
  uint64_t moment_ = 0;  // number of lost moments
  std::map<std::string, Read> read_;
  std::string fence_;
};

}  // namespace verbena::store::rados
