// The C API's listings.
#include "client/c/c_api.h"

namespace {

using namespace verbena::c_api;
using verbena::Outcome;

}  // namespace

extern "C" {

int verbena_list_page(verbena_client* client, const char* bucket, const verbena_list_options* options,
                      verbena_page** page) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || page == nullptr) return null_argument();
    *page = nullptr;
    OUT_ASSIGN(const auto request, list_request(options));
    OUT_ASSIGN(auto listed, client->client.list(bucket, request));
    *page = new verbena_page{std::move(listed)};
    return {};
  });
}

int verbena_buckets(verbena_client* client, verbena_page** page) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || page == nullptr) return null_argument();
    *page = nullptr;
    OUT_ASSIGN(auto buckets, client->client.buckets());
    auto made = std::make_unique<verbena_page>();
    for (auto& bucket : buckets) {
      verbena::ObjectInfo info;
      info.key = std::move(bucket.name);
      info.last_modified = bucket.created;
      made->page.objects.push_back(std::move(info));
    }
    *page = made.release();
    return {};
  });
}

size_t verbena_page_count(const verbena_page* page) { return page == nullptr ? 0 : page->page.objects.size(); }

const char* verbena_page_object(const verbena_page* page, size_t index, verbena_object* object) {
  if (page == nullptr || index >= page->page.objects.size() || !fillable(object)) return nullptr;
  const verbena::ObjectInfo& info = page->page.objects[index];
  fill(object, info);
  return info.key.c_str();
}

size_t verbena_page_prefix_count(const verbena_page* page) {
  return page == nullptr ? 0 : page->page.common_prefixes.size();
}

const char* verbena_page_prefix(const verbena_page* page, size_t index) {
  if (page == nullptr || index >= page->page.common_prefixes.size()) return nullptr;
  return page->page.common_prefixes[index].c_str();
}

const char* verbena_page_continuation(const verbena_page* page) {
  return page == nullptr || !page->page.truncated ? nullptr : page->page.continuation.c_str();
}

void verbena_page_free(verbena_page* page) { delete page; }

int verbena_list_begin(verbena_client* client, const char* bucket, const verbena_list_options* options,
                       verbena_list** list) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || list == nullptr) return null_argument();
    OUT_ASSIGN(auto request, list_request(options));
    *list = new verbena_list{client->client, bucket, std::move(request), {}, 0, false};
    return {};
  });
}

int verbena_list_next(verbena_list* list, const char** key, verbena_object* object) {
  bool found = false;
  const int code = guarded([&]() -> Outcome<> {
    if (list == nullptr || key == nullptr) return null_argument();
    OUT_TRY(fillable(object));
    while (list->next == list->page.objects.size()) {
      if (list->started && !list->page.truncated) return {};
      if (list->started) list->options.continuation = list->page.continuation;
      OUT_ASSIGN(list->page, list->client.list(list->bucket, list->options));
      list->started = true;
      list->next = 0;
    }
    const verbena::ObjectInfo& info = list->page.objects[list->next++];
    *key = info.key.c_str();
    fill(object, info);
    found = true;
    return {};
  });
  return code != VERBENA_OK ? -code : (found ? 1 : 0);
}

void verbena_list_end(verbena_list* list) { delete list; }

}  // extern "C"
