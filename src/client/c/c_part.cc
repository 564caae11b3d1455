// The C API's parts of uploads that other clients began.
#include "client/api/client_impl.h"
#include "client/c/c_api.h"

namespace {

using namespace verbena::c_api;
using verbena::ErrorCode;
using verbena::Outcome;
using verbena::client::fault;

constexpr unsigned number_max = 10'000;  // S3

Outcome<verbena::client::UploadPart> part_of_upload(const char* bucket, const char* key, const char* upload_id,
                                                    unsigned number, verbena::Bytes from,
                                                    const verbena_part_options& given) {
  if (*bucket == 0 || *key == 0 || *upload_id == 0) {
    return fault(ErrorCode::invalid_argument, "a part has a bucket, a key and an upload");
  }
  if (number == 0 || number > number_max) return fault(ErrorCode::invalid_argument, "parts have numbers 1 to 10000");
  verbena::client::UploadPart part{.bucket = bucket, .key = key, .upload_id = upload_id, .from = from};
  part.number = static_cast<int>(number);
  part.md5_etag = given.md5_etag != 0;
  if (given.cancellation != nullptr) part.stop = given.cancellation->source.get_token();
  if (given.checksum == nullptr) {
    // The checksum that the server adds to a part sent without one.
    verbena::Digest digest(verbena::Algorithm::crc64nvme);
    digest.update(from);
    part.checksum = {verbena::Algorithm::crc64nvme, digest.finish_base64()};
  } else {
    OUT_ASSIGN(part.checksum, verbena::client::parse_checksum(given.checksum));
  }
  return part;
}

}  // namespace

extern "C" int verbena_put_part(verbena_client* client, const char* bucket, const char* key, const char* upload_id,
                                unsigned number, const void* from, size_t size, const verbena_part_options* options,
                                verbena_object* object, verbena_transfer* transfer) {
  return guarded([&]() -> Outcome<> {
    if (client == nullptr || bucket == nullptr || key == nullptr || upload_id == nullptr) return null_argument();
    if (from == nullptr && size > 0) return null_argument();
    OUT_TRY(fillable(object));
    OUT_TRY(fillable(transfer));
    OUT_ASSIGN(const auto given, known(options));
    const verbena::Bytes bytes(static_cast<const std::byte*>(from), size);
    if (given.info != nullptr) *given.info = nullptr;
    OUT_ASSIGN(const auto part, part_of_upload(bucket, key, upload_id, number, bytes, given));
    OUT_ASSIGN(auto put, verbena::Client::Inside::impl(client->client).put_part(part));
    fill(object, put);
    fill(transfer, put.transfer);
    if (given.info != nullptr) *given.info = make_info(put);
    return {};
  });
}
