# Ruby's fog-aws, as GitLab and others use it: with version 4 and version 2. Prints "ok".
require 'fog/aws'
require 'net/http'
require 'stringio'

def expect(holds, what)
  abort "not so: #{what}" unless holds
end

uri = URI(ARGV[0])
[4, 2].each do |version|
  storage = Fog::Storage.new(provider: 'AWS', aws_access_key_id: ENV['AWS_ACCESS_KEY_ID'], region: 'us-east-1',
                             aws_secret_access_key: ENV['AWS_SECRET_ACCESS_KEY'], aws_signature_version: version,
                             host: uri.host, port: uri.port, scheme: 'http', path_style: true)
  directory = storage.directories.create(key: "fog-#{version}")
  file = directory.files.create(key: 'dir/a key', body: 'hello', content_type: 'text/plain', metadata: { 'x-amz-meta-a' => 'b' })
  expect(directory.files.get('dir/a key').body == 'hello', 'the bytes')
  expect(directory.files.head('dir/a key').metadata['x-amz-meta-a'] == 'b', 'metadata')
  storage.put_bucket_tagging("fog-#{version}", 'k' => 'v')
  expect(storage.get_bucket_tagging("fog-#{version}").body['BucketTagging'] == { 'k' => 'v' }, 'tags of a bucket')

  large = '0123456789abcdef' * (11 << 16)   # 11 MiB
  directory.files.create(key: 'large', body: StringIO.new(large), multipart_chunk_size: 5 << 20)
  expect(directory.files.get('large').body == large, 'the bytes in parts')
  expect(directory.files.head('large').etag.include?('-'), 'it went in parts')
  file.copy("fog-#{version}", 'copy')
  expect(directory.files.all(prefix: 'dir/').map(&:key) == ['dir/a key'], 'a listing')
  url = URI(directory.files.head('copy').url(Time.now + 60))
  expect(Net::HTTP.get(url) == 'hello', 'a presigned URL')
  expect(directory.files.get('none').nil?, 'what is not there')
  storage.delete_multiple_objects("fog-#{version}", storage.directories.get("fog-#{version}").files.map(&:key))
  expect(directory.destroy, 'the bucket goes')
end
puts 'ok'
