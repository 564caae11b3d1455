// Removes objects whose end has come (store/ends.h), in the background, on a thread of its own: again and again those
// that are due, by the index of ends. Readers do not see them any more, so this only gives space back.
//
// A removal is one of a lifecycle rule's kind, with its events: in a bucket with versions it makes a delete marker. Its
// commit checks that the end has come, since the object may have been overwritten or renewed meanwhile.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "s3/service.h"
#include "store/ends.h"

namespace verbena::s3 {

struct EndsOptions {
  size_t page_size = 1024;
  size_t at_once = 32;                 // removals: they share commits
  std::function<bool()> on_duty = {};  // as LifecycleOptions::on_duty
  std::chrono::seconds pause{1};       // between two passes; longer after one that failed
};

// Objects that passes have left because their rows are damaged: bucket's id, key. Until it is forgotten by the owner,
// no pass tries one again.
using DamagedEnds = std::set<std::pair<uint64_t, std::string>>;
inline constexpr size_t damaged_ends_max = 4096;  // more count as failures of the store

// One pass. For the worker, and for tests.
class EndsPass {
 public:
  EndsPass(Service& service, store::EndIndex& index, EndsOptions options, const std::atomic<bool>& stop,
           DamagedEnds& damaged)
      : service_(service), index_(index), options_(std::move(options)), stop_(stop), damaged_(damaged) {}
  // False: so much failed that another pass has time.
  Task<bool> run();
  const std::string& trouble() const { return trouble_; }  // the first removal that failed; empty: none did

 private:
  struct Page;
  Task<> worker(std::shared_ptr<Page> page);
  Task<Result<void>> remove(const store::EndedKey& ended);
  bool leaves(const store::EndedKey& ended) const;
  void note_failure(const store::EndedKey& ended, const Error& error);
  bool stops() const { return stop_ || (options_.on_duty && !options_.on_duty()); }

  Service& service_;
  store::EndIndex& index_;
  const EndsOptions options_;
  const std::atomic<bool>& stop_;
  DamagedEnds& damaged_;
  size_t failures_ = 0;                   // of the store
  std::map<uint64_t, size_t> failed_in_;  // by bucket
  std::string trouble_;
};

class EndsWorker {
 public:
  EndsWorker(Service& service, store::EndIndex& index, EndsOptions options)
      : service_(service), index_(index), options_(std::move(options)) {}
  ~EndsWorker() { stop(); }
  void start();
  void stop();  // ends the running pass; waits for it

 private:
  Task<> loop();
  Service& service_;
  store::EndIndex& index_;
  const EndsOptions options_;
  std::atomic<bool> stop_{false};
  boost::asio::io_context io_{1};
  boost::asio::steady_timer timer_{io_};
  SteadyClock::time_point tell_at_{}, forget_at_{};
  DamagedEnds damaged_;
  std::thread thread_;
};

}  // namespace verbena::s3
