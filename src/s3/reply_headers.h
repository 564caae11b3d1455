// An answer's headers in one piece of memory: a door writes some ten of them for every request.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::s3 {

class ReplyHeaders {
 public:
  struct Header {
    std::string_view name, value;  // valid until the next change
  };
  class Iterator {
   public:
    using value_type = Header;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    Iterator(const ReplyHeaders* headers, size_t at) : headers_(headers), at_(at) {}
    Header operator*() const { return headers_->at(at_); }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    Iterator operator++(int) { return {headers_, at_++}; }
    bool operator==(const Iterator&) const = default;

   private:
    const ReplyHeaders* headers_ = nullptr;
    size_t at_ = 0;
  };

  // Neither may point into this object's own text.
  void emplace_back(std::string_view name, std::string_view value) {
    if (places_.empty()) {
      text_.reserve(usual_bytes);
      places_.reserve(usual_count);
    }
    places_.push_back({text_.size(), name.size(), value.size()});
    text_.append(name).append(value);
  }
  void push_back(const std::pair<std::string, std::string>& header) { emplace_back(header.first, header.second); }
  // A header with the concatenated texts as its value.
  template <class... Parts>
  void emplace_joined(std::string_view name, const Parts&... parts) {
    emplace_back(name, {});
    (text_.append(parts), ...);
    places_.back().value_size = text_.size() - places_.back().at - name.size();
  }
  void clear() {
    text_.clear();
    places_.clear();
  }
  // All headers of that name.
  void erase(std::string_view name) {
    std::erase_if(places_, [&](const Place& place) { return name_of(place) == name; });
  }

  bool empty() const { return places_.empty(); }
  size_t size() const { return places_.size(); }
  Header at(size_t i) const {
    const Place& place = places_[i];
    return {name_of(place), std::string_view(text_).substr(place.at + place.name_size, place.value_size)};
  }
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, places_.size()}; }

 private:
  static constexpr size_t usual_bytes = 512, usual_count = 16;
  struct Place {
    size_t at, name_size, value_size;
  };
  std::string_view name_of(const Place& place) const {
    return std::string_view(text_).substr(place.at, place.name_size);
  }
  std::string text_;  // name, value, name, value ...
  std::vector<Place> places_;
};

}  // namespace verbena::s3
