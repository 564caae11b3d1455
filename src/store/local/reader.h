// The logic's blobs, in volumes and in the index: writers of new ones, readers of an object's.
#pragma once

#include "store/blobs.h"
#include "store/local/engine.h"

namespace verbena::store::local {

class VolumeBlobs final : public Blobs {
 public:
  explicit VolumeBlobs(Engine& engine) : engine_(engine) {}

  std::shared_ptr<BlobWriter> create(const Bucket& bucket, std::optional<uint64_t> size_hint) override;
  std::shared_ptr<BlobWriter> create_whole(const Bucket& bucket, Bytes bytes, BlobRef& ref) override;
  Result<std::shared_ptr<ObjectReader>> open(View& rows, std::string name, ObjectInfo info,
                                             std::span<const BlobRef> blobs) override;
  std::shared_ptr<ObjectReader> find_kept(uint64_t object, std::string_view head) override;
  void keep(uint64_t object, std::string head, const std::shared_ptr<ObjectReader>& reader) override;
  void let_go(const std::shared_ptr<ObjectReader>& reader) override;

 private:
  Engine& engine_;
};

}  // namespace verbena::store::local
