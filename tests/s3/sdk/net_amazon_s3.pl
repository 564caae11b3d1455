#!/usr/bin/perl
# Perl's Net::Amazon::S3, with the newest signature and with the oldest. Prints "ok".
use strict;
use warnings;
use Net::Amazon::S3;
use Net::Amazon::S3::Client;
use Net::Amazon::S3::Signature::V2;
use Net::Amazon::S3::Signature::V4;
use Net::Amazon::S3::Vendor::Generic;

my ($endpoint) = @ARGV;
my $host = $endpoint =~ s{^http://}{}r;

sub expect { my ($holds, $what) = @_; die "not so: $what\n" unless $holds; }

sub round_trip {
    my ($version) = @_;
    my $vendor = Net::Amazon::S3::Vendor::Generic->new(
        host => $host, use_https => 0, use_virtual_host => 0,
        authorization_method => "Net::Amazon::S3::Signature::$version", default_region => 'us-east-1');
    my $s3 = Net::Amazon::S3->new(aws_access_key_id => $ENV{AWS_ACCESS_KEY_ID}, aws_secret_access_key => $ENV{AWS_SECRET_ACCESS_KEY},
                                  vendor => $vendor, retry => 0);
    my $client = Net::Amazon::S3::Client->new(s3 => $s3);
    my $bucket = $client->create_bucket(name => lc "perl-$version", location_constraint => 'us-east-1');

    my $object = $bucket->object(key => 'dir/a key', content_type => 'text/plain', user_metadata => { a => 'b' });
    $object->put('hello');
    expect($object->get eq 'hello', 'the bytes');
    my $response = $object->get_decoded;
    expect($bucket->object(key => 'dir/a key')->exists, 'it exists');

    my $large = $bucket->object(key => 'large');
    my $piece = '0123456789abcdef' x (5 * 1024 * 1024 / 16);
    my $upload = $large->initiate_multipart_upload;
    my @etags = map {   # put_part() of Debian 12's release dies of an argument of its own
        my $value = $_ < 3 ? $piece : 'tail';
        my $request = Net::Amazon::S3::Operation::Object::Upload::Part::Request->new(
            s3 => $s3, bucket => $bucket->name, key => 'large', upload_id => $upload, part_number => $_,
            value => $value, headers => { 'Content-Length' => length $value });
        my $part = $s3->ua->request($request->http_request);
        expect($part->is_success, 'a part: ' . $part->content);
        $part->header('ETag') =~ s/"//gr;
    } 1 .. 3;
    $large->complete_multipart_upload(upload_id => $upload, etags => \@etags, part_numbers => [1 .. 3]);
    expect($large->get eq $piece . $piece . 'tail', 'the bytes in parts');

    my $stream = $bucket->list({ prefix => 'dir/' });
    my @keys = map { $_->key } $stream->items;
    expect("@keys" eq 'dir/a key', 'a listing');
    expect(!$bucket->object(key => 'none')->exists, 'what is not there');
    $bucket->delete_multi_object($bucket->list->items);
    $bucket->delete;
}

round_trip($_) for qw(V4 V2);
print "ok\n";
