// The load of the order of eviction of one bounded bucket (access/bound.h): its listing, page by page, and then its
// objects by their age. In slices, so that other buckets are served between them. An object whose row is damaged is
// left out: its size is not known, and it cannot be evicted.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "s3/access/bound.h"
#include "store/change_feed.h"
#include "store/store.h"

namespace verbena::s3 {

// Objects that come in lists, youngest first: by when they were written, or their end was put off last.
class ByAge {
 public:
  void add(std::vector<EvictionOrder::Object> list);
  std::vector<EvictionOrder::Object> take(size_t max);
  std::vector<EvictionOrder::Object> take_oldest(size_t max);  // the oldest and others of its list
  bool empty() const { return lists_.empty(); }

 private:
  struct List {
    std::vector<EvictionOrder::Object> objects;
    size_t next = 0;
  };
  static bool is_older(const List& a, const List& b);
  std::vector<List> lists_;  // a heap, the one with the youngest object first
};

class BoundLoad {
 public:
  BoundLoad(BoundPtr bound, store::Store& store)
      : bound_(std::move(bound)), store_(store), memory_(bound_->more_memory()) {}

  // A slice of it. True: there is more. It ends early if the bound is gone or its changes were missed: then the order
  // is still not loaded.
  Task<Result<bool>> go_on(store::ChangeFeeds& feeds);
  // Objects for which the order has no memory, to be evicted before the next slice.
  std::vector<EvictionOrder::Object> take_crowded_out() { return std::exchange(crowded_out_, {}); }

 private:
  Result<void> begin(store::ChangeFeeds& feeds);
  Task<Result<void>> list_some();
  void crowd_out();
  bool add_some();

  const BoundPtr bound_;
  store::Store& store_;
  std::optional<EvictionOrder> before_;  // to be forgotten
  bool began_ = false, lists_ = true;
  store::ListRequest request_;
  ByAge listed_;
  OrderShare memory_;  // of these
  std::vector<EvictionOrder::Object> crowded_out_;
};

}  // namespace verbena::s3
