# Ruby's aws-sdk-s3: resources, the multipart uploader, presigned URLs. Prints "ok".
require 'aws-sdk-s3'
require 'net/http'
require 'stringio'
require 'tempfile'

def expect(holds, what)
  abort "not so: #{what}" unless holds
end

client = Aws::S3::Client.new(endpoint: ARGV[0], region: 'us-east-1', force_path_style: true, retry_limit: 0)
bucket = Aws::S3::Resource.new(client: client).create_bucket(bucket: 'ruby-sdk')
object = bucket.object("dir/a key \u00e9")
object.put(body: 'hello', content_type: 'text/plain', metadata: { 'a' => 'b' })
expect(object.get.body.read == 'hello' && object.metadata == { 'a' => 'b' }, 'the bytes and their metadata')
expect(object.get(range: 'bytes=1-3').body.read == 'ell', 'a range')

Tempfile.create do |file|
  file.binmode
  file.write('0123456789abcdef' * (17 << 16))   # 17 MiB
  file.flush
  bucket.object('large').upload_file(file.path, multipart_threshold: 10 << 20)
  Tempfile.create do |back|
    bucket.object('large').download_file(back.path)
    expect(File.binread(back.path) == File.binread(file.path), 'the bytes in parts')
  end
end
expect(bucket.object('large').etag.include?('-'), 'it went in parts')
bucket.object('stream').upload_stream { |out| 3.times { out << 'x' * (3 << 20) } }
expect(bucket.object('stream').content_length == 9 << 20, 'a stream')

bucket.object('copy').copy_from(object)
expect(bucket.objects(prefix: 'dir/').map(&:key) == ["dir/a key \u00e9"], 'a listing')
url = URI(bucket.object('presigned').presigned_url(:put, content_type: 'text/plain', cache_control: 'no-store'))
answer = Net::HTTP.start(url.host, url.port) do |http|
  http.send_request('PUT', url.request_uri, 'hello', 'Content-Type' => 'text/plain', 'Cache-Control' => 'no-store')
end
expect(answer.code == '200', "a presigned PUT: #{answer.body}")
begin
  bucket.object('none').get
  abort 'an object that is not there was read'
rescue Aws::S3::Errors::NoSuchKey
end
bucket.clear!
bucket.delete
puts 'ok'
