package rdma

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// Transport is a http.RoundTripper for the Go SDKs of S3: it moves the payloads of GetObject and PutObject by the client, under the
// same keys. A request that the client cannot answer exactly, or that fails there, goes on by Base, so that the SDK sees the
// server's own answer.
//
//	minio.New(endpoint, &minio.Options{Creds: ..., Transport: &rdma.Transport{Client: client, Endpoint: endpoint}})
type Transport struct {
	Client   *Client
	Endpoint string            // host:port of the S3 endpoint that is spoken to; empty: of any
	Base     http.RoundTripper // nil: http.DefaultTransport
	native   atomic.Int64
	http     atomic.Int64
}

// Counts says how many requests went by the client and how many by Base.
func (t *Transport) Counts() (native, base int64) { return t.native.Load(), t.http.Load() }

const bodyMax = 1 << 30 // larger ones are left to Base, which need not hold them

var (
	passed = set("User-Agent", "X-Amz-Date", "X-Amz-Content-Sha256", "Authorization", "Accept-Encoding", "Content-Length",
		"X-Amz-Security-Token", "Date", "Amz-Sdk-Request", "Amz-Sdk-Invocation-Id", "X-Amz-Checksum-Mode", "Expect",
		"X-Amz-Decoded-Content-Length")
	passedGet = set("Range", "If-Match", "If-None-Match")
	passedPut = set("Content-Type", "If-Match", "If-None-Match", "Content-Md5")
)

func set(names ...string) map[string]bool {
	made := map[string]bool{}
	for _, name := range names {
		made[name] = true
	}
	return made
}

// RoundTrip is http.RoundTripper's.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if bucket, key, ok := t.object(request); ok {
		var response *http.Response
		switch request.Method {
		case http.MethodGet:
			response = t.get(request, bucket, key)
		case http.MethodPut:
			var err error
			if response, err = t.put(request, bucket, key); err != nil {
				return nil, err
			}
		}
		if response != nil {
			t.native.Add(1)
			return response, nil
		}
	}
	t.http.Add(1)
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(request)
}

func (t *Transport) object(request *http.Request) (bucket, key string, ok bool) {
	if t.Endpoint != "" && request.URL.Host != t.Endpoint {
		return "", "", false
	}
	if query := request.URL.RawQuery; query != "" && query != "x-id=GetObject" && query != "x-id=PutObject" {
		return "", "", false
	}
	path, err := url.PathUnescape(strings.TrimPrefix(request.URL.EscapedPath(), "/"))
	if err != nil {
		return "", "", false
	}
	bucket, key, ok = strings.Cut(path, "/")
	return bucket, key, ok && bucket != "" && key != "" && !strings.Contains(path, "\x00")
}

func only(headers http.Header, own map[string]bool, prefix string) bool {
	for name, values := range headers {
		known := passed[name] || own[name] || (prefix != "" && strings.HasPrefix(name, prefix))
		if !known || len(values) != 1 {
			return false
		}
	}
	return true
}

func unquoted(etag string) string { return strings.Trim(etag, `"`) }

func parseRange(text string) (*Range, bool) {
	if text == "" {
		return nil, true
	}
	spec := strings.TrimPrefix(text, "bytes=")
	first, last, found := strings.Cut(spec, "-")
	from, err := strconv.ParseUint(first, 10, 63)
	if !found || spec == text || err != nil {
		return nil, false
	}
	if last == "" {
		return &Range{from, 0}, true
	}
	to, err := strconv.ParseUint(last, 10, 63)
	if err != nil || to < from {
		return nil, false
	}
	return &Range{from, to - from + 1}, true
}

func (t *Transport) get(request *http.Request, bucket, key string) *http.Response {
	part, ok := parseRange(request.Header.Get("Range"))
	if !ok || !only(request.Header, passedGet, "") {
		return nil
	}
	data, got, err := t.Client.GetWith(request.Context(), bucket, key, &GetOptions{Range: part, Metadata: true,
		IfMatch: unquoted(request.Header.Get("If-Match")), IfNoneMatch: unquoted(request.Header.Get("If-None-Match"))})
	if err != nil {
		return nil
	}
	header := http.Header{}
	for name, value := range got.Headers {
		header.Set(name, value)
	}
	for name, value := range got.Metadata {
		header.Set("x-amz-meta-"+name, value)
	}
	header.Set("Content-Type", got.ContentType)
	if got.ContentType == "" {
		header.Set("Content-Type", "binary/octet-stream")
	}
	header.Set("ETag", `"`+got.ETag+`"`)
	header.Set("Last-Modified", got.LastModified.Format(http.TimeFormat))
	header.Set("Accept-Ranges", "bytes")
	if got.VersionID != "" {
		header.Set("x-amz-version-id", got.VersionID)
	}
	if name, value, found := strings.Cut(got.Checksum, ":"); found && part == nil && request.Header.Get("X-Amz-Checksum-Mode") != "" {
		header.Set("x-amz-checksum-"+strings.ToLower(name), value)
	}
	status := http.StatusOK
	header.Del("Content-Range")
	if part != nil {
		status = http.StatusPartialContent
		header.Set("Content-Range", "bytes "+strconv.FormatUint(part.Offset, 10)+"-"+
			strconv.FormatUint(part.Offset+uint64(len(data))-1, 10)+"/"+strconv.FormatUint(got.Size, 10))
	}
	return answer(request, status, header, data)
}

// The body's bytes; false for one that is better left to Base.
func body(request *http.Request) ([]byte, bool) {
	if request.ContentLength > bodyMax || request.ContentLength < 0 || strings.HasPrefix(request.Header.Get("X-Amz-Content-Sha256"), "STREAMING") {
		return nil, false
	}
	if request.Body == nil || request.ContentLength == 0 {
		return nil, true
	}
	data := make([]byte, request.ContentLength)
	if _, err := io.ReadFull(request.Body, data); err != nil {
		data = nil
	}
	request.Body.Close()
	// As it was, for whoever sends it after all.
	request.Body = io.NopCloser(bytes.NewReader(data))
	return data, data != nil
}

func (t *Transport) put(request *http.Request, bucket, key string) (*http.Response, error) {
	if !only(request.Header, passedPut, "X-Amz-Meta-") {
		return nil, nil
	}
	data, ok := body(request)
	if !ok {
		return nil, nil
	}
	if sum := request.Header.Get("Content-Md5"); sum != "" {
		digest := md5.Sum(data)
		if base64.StdEncoding.EncodeToString(digest[:]) != sum {
			return nil, nil
		}
	}
	options := &PutOptions{ContentType: request.Header.Get("Content-Type"), Metadata: map[string]string{}, MD5ETag: true,
		IfMatch: unquoted(request.Header.Get("If-Match")), IfNoneMatch: unquoted(request.Header.Get("If-None-Match"))}
	for name := range request.Header {
		if strings.HasPrefix(name, "X-Amz-Meta-") {
			options.Metadata[strings.ToLower(strings.TrimPrefix(name, "X-Amz-Meta-"))] = request.Header.Get(name)
		}
	}
	put, err := t.Client.PutWith(request.Context(), bucket, key, data, options)
	if err != nil {
		conditional := options.IfMatch != "" || options.IfNoneMatch != ""
		if conditional && (errors.Is(err, OutcomeUnknown) || errors.Is(err, TimedOut)) || errors.Is(err, context.Canceled) ||
			errors.Is(err, context.DeadlineExceeded) {
			return nil, err // it may have happened: not again
		}
		return nil, nil
	}
	header := http.Header{}
	header.Set("ETag", `"`+put.ETag+`"`)
	if put.VersionID != "" {
		header.Set("x-amz-version-id", put.VersionID)
	}
	return answer(request, http.StatusOK, header, nil), nil
}

func answer(request *http.Request, status int, header http.Header, data []byte) *http.Response {
	header.Set("Content-Length", strconv.Itoa(len(data)))
	return &http.Response{Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: header, Body: io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data)), Request: request}
}
