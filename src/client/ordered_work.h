// Work that is done in the order in which it was given, name by name, on threads of others.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <utility>

namespace verbena::client {

// Thread-safe. Must outlive the work.
class OrderedWork {
  struct Item;

 public:
  using Work = std::function<void()>;
  // `post` runs a function on another thread, perhaps later.
  explicit OrderedWork(std::function<void(Work)> post) : post_(std::move(post)) {}
  OrderedWork(const OrderedWork&) = delete;

  // One after the other of the same name, each when the one before it has returned. A stop that is requested before its
  // turn has come calls `cancelled` instead of `work`, at once and on the thread that requests it; it must not block.
  void add(const std::string& name, Work work, const std::stop_token& stop = {}, Work cancelled = {}) {
    add(name, std::move(work), stop, std::move(cancelled), /*beside_places=*/false);
  }
  // The same beside the places before it, which it does not wait for, only for the work before it. The work takes
  // own_place(), for what it begins and does not end; what has to wait for the places before it is to fill that one.
  void add_beside_places(const std::string& name, Work work, const std::stop_token& stop, Work cancelled) {
    add(name, std::move(work), stop, std::move(cancelled), /*beside_places=*/true);
  }

  // A place for work that may have to be done: what add() adds later waits until it is given up, or its work is done.
  using Place = std::shared_ptr<Item>;
  Place reserve(const std::string& name) {
    auto item = std::make_shared<Item>();
    const std::lock_guard lock(mutex_);
    entries_[name].items.push_back(item);
    return item;
  }
  // The place of the work that runs, between what was added before it and after it. Called by that work, once.
  Place own_place(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return std::exchange(entries_.at(name).own, nullptr);
  }
  // add() at that place.
  void fill(const std::string& name, const Place& place, Work work, const std::stop_token& stop, Work cancelled) {
    place->set(std::move(work), stop, std::move(cancelled));
    std::unique_lock lock(mutex_);
    place->state = Item::State::given;
    ++entries_[name].works;
    go_on(lock, name);
  }
  // Once, of a place that was not filled.
  void give_up(const std::string& name, const Place& place) {
    std::unique_lock lock(mutex_);
    place->state = Item::State::given_up;
    go_on(lock, name);
  }

  // Whether work of this name waits or is being done. Places do not count.
  bool has(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    if (entries_.empty()) return false;
    const auto found = entries_.find(name);
    return found != entries_.end() && found->second.works != 0;
  }

 private:
  struct Stopped {
    Item& item;
    Work cancelled;
    void operator()() const {
      if (item.decided.exchange(true)) return;
      item.work = nullptr;  // its captures are not kept until its turn
      cancelled();
    }
  };
  struct Item {
    enum class State : uint8_t { reserved, given, given_up };
    State state = State::reserved;  // guarded by mutex_
    bool beside_places = false;
    Work work;
    std::atomic<bool> decided{false};  // that it is done, or that it is cancelled
    std::optional<std::stop_callback<Stopped>> stopped;

    void set(Work given, const std::stop_token& stop, Work cancelled) {
      work = std::move(given);
      if (stop.stop_possible()) stopped.emplace(stop, Stopped{*this, std::move(cancelled)});
    }
  };
  struct Entry {
    std::deque<Place> items;
    Place own;             // of the work that is being done, until it takes it
    size_t works = 0;      // of them with work, and the one that is being done
    bool running = false;  // or about to: one at a time
  };

  void add(const std::string& name, Work work, const std::stop_token& stop, Work cancelled, bool beside_places) {
    auto item = std::make_shared<Item>();
    item->beside_places = beside_places;
    item->set(std::move(work), stop, std::move(cancelled));
    std::unique_lock lock(mutex_);
    Entry& entry = entries_[name];
    item->state = Item::State::given;
    ++entry.works;
    entry.items.push_back(std::move(item));
    go_on(lock, name);
  }

  // The first that has work, unless that waits for a place before it: null.
  static Place* next_of(Entry& entry) {
    auto& items = entry.items;
    while (!items.empty() && items.front()->state == Item::State::given_up) items.pop_front();
    if (entry.works == 0) return nullptr;
    const auto given = std::ranges::find(items, Item::State::given, [](const Place& item) { return item->state; });
    if (given == items.end()) return nullptr;
    return given == items.begin() || (*given)->beside_places ? &*given : nullptr;
  }

  // Lets the next of the name run, if there is one.
  void go_on(std::unique_lock<std::mutex>& lock, const std::string& name) {
    const auto found = entries_.find(name);
    Entry& entry = found->second;
    if (entry.running) return;
    const bool has_next = next_of(entry) != nullptr;
    if (entry.items.empty()) {
      entries_.erase(found);
    } else if (has_next) {
      entry.running = true;
      lock.unlock();
      post_([this, name] { run(name); });  // not at once: others wait for the thread, too
    }
  }

  void run(const std::string& name) {
    std::unique_lock lock(mutex_);
    Entry& entry = entries_.find(name)->second;  // stays while one runs
    Place* const next = next_of(entry);
    if (next == nullptr) {  // a place before it was filled meanwhile, and waits for another one
      entry.running = false;
      return;
    }
    entry.own = std::make_shared<Item>();
    auto item = std::exchange(*next, entry.own);
    lock.unlock();
    const bool is_wanted = !item->decided.exchange(true);
    item->stopped.reset();  // waits for `cancelled`
    if (is_wanted) item->work();
    item = nullptr;  // its captures are destroyed before the next one begins
    lock.lock();
    if (const Place left = std::exchange(entry.own, nullptr)) left->state = Item::State::given_up;
    --entry.works;
    entry.running = false;
    go_on(lock, name);
  }

  const std::function<void(Work)> post_;
  mutable std::mutex mutex_;
  // An entry until its last work is done and its last place is given up.
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace verbena::client
