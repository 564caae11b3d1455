package rdma

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
)

// Transport is a http.RoundTripper for the Go SDKs of S3. It moves the payloads of GetObject and PutObject by a client, and those of
// UploadPart by RDMA token, signed again with the same key. A request that is signed with another key or unsigned, that the
// client cannot answer exactly, or that fails there, is sent by Base, so that the SDK sees the server's own answer.
//
//	transport, err := rdma.NewTransport(rdma.Config{Endpoint: "http://host:9000", AccessKey: ..., SecretKey: ...})
//	minio.New("host:9000", &minio.Options{Creds: ..., Transport: transport})
type Transport struct {
	Client   *Client           // for GetObject and PutObject
	Tokens   *Client           // of UploadPart: one with Via "token"; nil: those go by Base
	Endpoint string            // host:port of the S3 endpoint
	Base     http.RoundTripper // nil: http.DefaultTransport
	native   atomic.Int64
	http     atomic.Int64
}

// NewTransport connects: natively, or by config.Via, and for parts of uploads by token where this machine has a device
// of config.TokenProvider. What the SDK would send by TLS goes only by a native door that encrypts it, or stays on this
// host, unless config.Via, Encryption or CleartextRDMA says otherwise; with config.Insecure one of them must, since
// encryption does not protect from another server in its place if the certificate is not verified.
func NewTransport(config Config) (*Transport, error) {
	if !strings.Contains(config.Endpoint, "://") {
		config.Endpoint, config.NativeEndpoint = config.HTTPEndpoint, config.Endpoint
	}
	where, err := url.Parse(config.Endpoint)
	if err != nil || where.Host == "" {
		return nil, &Error{Code: InvalidArgument, Message: "a transport's config names the endpoint that the SDK speaks to, http://host:port"}
	}
	payloads := config
	if config.Via == "" {
		payloads.Via = "native"
		asked := config.CleartextRDMA || (config.Encryption != "" && config.Encryption != "auto")
		if where.Scheme == "https" && !asked {
			if config.Insecure {
				return nil, &Error{Code: InvalidArgument, Message: "an https endpoint with Insecure needs Via, Encryption or CleartextRDMA"}
			}
			payloads.Encryption = "required"
		}
	}
	made := &Transport{Endpoint: where.Host}
	if made.Client, err = NewClient(payloads); err != nil {
		return nil, err
	}
	config.Via, config.Provider = "token", config.TokenProvider
	if config.Provider == "" {
		config.Provider = "verbs"
	}
	if config.Provider != "none" {
		made.Tokens, _ = NewClient(config) // without a device, parts go by Base
	}
	return made, nil
}

// Close ends the clients.
func (t *Transport) Close() error {
	if t.Tokens != nil {
		t.Tokens.Close()
	}
	return t.Client.Close()
}

// Counts returns the number of requests handled by the clients and by Base.
func (t *Transport) Counts() (native, base int64) { return t.native.Load(), t.http.Load() }

const checksumPrefix = "X-Amz-Checksum-"

var (
	passed = set("User-Agent", "X-Amz-Date", "X-Amz-Content-Sha256", "Authorization", "Accept-Encoding", "Content-Length",
		"X-Amz-Security-Token", "Date", "Amz-Sdk-Request", "Amz-Sdk-Invocation-Id", "X-Amz-Checksum-Mode", "Expect")
	passedGet  = set("Range", "If-Match", "If-None-Match")
	passedPart = set("Content-Type", "Content-Md5", "Content-Encoding", "X-Amz-Decoded-Content-Length", "X-Amz-Trailer",
		"X-Amz-Sdk-Checksum-Algorithm", checksumPrefix+"Crc32", checksumPrefix+"Crc32c", checksumPrefix+"Crc64nvme",
		checksumPrefix+"Sha1", checksumPrefix+"Sha256", checksumPrefix+"Sha512", checksumPrefix+"Md5",
		checksumPrefix+"Xxhash64", checksumPrefix+"Xxhash3", checksumPrefix+"Xxhash128")
	passedPut = set("If-Match", "If-None-Match")
	notSums   = set(checksumPrefix+"Mode", checksumPrefix+"Algorithm", checksumPrefix+"Type")
)

func set(names ...string) map[string]bool {
	made := map[string]bool{}
	for _, name := range names {
		made[name] = true
	}
	return made
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, request, err := t.move(request)
	if err != nil {
		return nil, err
	}
	if response != nil {
		t.native.Add(1)
		return response, nil
	}
	t.http.Add(1)
	if t.Base != nil {
		return t.Base.RoundTrip(request)
	}
	return http.DefaultTransport.RoundTrip(request)
}

// Returns the answer, or the request for Base.
func (t *Transport) move(request *http.Request) (*http.Response, *http.Request, error) {
	bucket, key, ok := t.object(request)
	if !ok {
		return nil, request, nil
	}
	query := request.URL.Query()
	query.Del("x-id")
	switch {
	case request.Method == http.MethodGet && len(query) == 0:
		return t.get(request, bucket, key), request, nil
	case request.Method == http.MethodPut && len(query) == 0:
		return t.put(request, bucket, key)
	case request.Method == http.MethodPut && len(query) == 2 && query.Has("partNumber") && query.Has("uploadId"):
		return t.part(request, bucket, key, query)
	}
	return nil, request, nil
}

// The bucket and key of a request to the endpoint, or to a bucket's host below it, signed with the client's own key.
func (t *Transport) object(request *http.Request) (bucket, key string, ok bool) {
	host, below := request.URL.Host, strings.TrimSuffix(request.URL.Host, "."+t.Endpoint)
	if host != t.Endpoint && host == below || !t.Client.signs(request.Header.Get("Authorization")) {
		return "", "", false
	}
	path, err := url.PathUnescape(strings.TrimPrefix(request.URL.EscapedPath(), "/"))
	if err != nil {
		return "", "", false
	}
	if host != t.Endpoint {
		path = below + "/" + path
	}
	bucket, key, ok = strings.Cut(path, "/")
	return bucket, key, ok && bucket != "" && key != "" && !strings.Contains(path, "\x00")
}

// "AWS4-HMAC-SHA256 Credential=KEY/20260102/us-east-1/s3/aws4_request, ..."
func (c *Client) signs(authorization string) bool {
	_, credential, found := strings.Cut(authorization, "Credential=")
	key, _, slash := strings.Cut(credential, "/")
	return found && slash && key == c.accessKey
}

func only(headers http.Header, prefix string, sets ...map[string]bool) bool {
	for name, values := range headers {
		known := passed[name] || (prefix != "" && strings.HasPrefix(name, prefix))
		for _, set := range sets {
			known = known || set[name]
		}
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
	if !ok || !only(request.Header, "", passedGet) {
		return nil
	}
	data, got, err := t.Client.GetWith(request.Context(), bucket, key, &GetOptions{Range: part, Metadata: true, sizeMax: bodyMax,
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
		header.Set(checksumPrefix+strings.ToLower(name), value)
		header.Set(checksumPrefix+"Type", "FULL_OBJECT")
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

func (t *Transport) put(request *http.Request, bucket, key string) (*http.Response, *http.Request, error) {
	if !only(request.Header, "X-Amz-Meta-", passedPut, passedPart) {
		return nil, request, nil
	}
	body, request, err := readPayload(request)
	if err != nil {
		return nil, request, passedOn(err)
	}
	options := &PutOptions{ContentType: request.Header.Get("Content-Type"), Metadata: map[string]string{}, MD5ETag: true, Describe: true, Checksum: body.checksum,
		IfMatch: unquoted(request.Header.Get("If-Match")), IfNoneMatch: unquoted(request.Header.Get("If-None-Match"))}
	for name := range request.Header {
		if strings.HasPrefix(name, "X-Amz-Meta-") {
			options.Metadata[strings.ToLower(strings.TrimPrefix(name, "X-Amz-Meta-"))] = request.Header.Get(name)
		}
	}
	put, err := t.Client.PutWith(request.Context(), bucket, key, body.data, options)
	if err != nil {
		conditional := options.IfMatch != "" || options.IfNoneMatch != ""
		if conditional && (errors.Is(err, OutcomeUnknown) || errors.Is(err, TimedOut)) || errors.Is(err, context.Canceled) ||
			errors.Is(err, context.DeadlineExceeded) {
			return nil, request, err // it may have happened: not repeated
		}
		return nil, request, nil
	}
	return stored(request, put, body), request, nil
}

func (t *Transport) part(request *http.Request, bucket, key string, query url.Values) (*http.Response, *http.Request, error) {
	number, err := strconv.Atoi(query.Get("partNumber"))
	if err != nil || t.Tokens == nil || !only(request.Header, "", passedPart) {
		return nil, request, nil
	}
	body, request, err := readPayload(request)
	if err != nil {
		return nil, request, passedOn(err)
	}
	put, err := t.Tokens.PutPart(request.Context(), bucket, key, query.Get("uploadId"), number, body.data, body.checksum)
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil, request, err
	}
	if err != nil { // storing a part twice is harmless
		return nil, request, nil
	}
	return stored(request, put, body), request, nil
}

// An unreadable body is the request's failure; an unsupported one goes by Base.
func passedOn(err error) error {
	if errors.Is(err, errOtherBody) {
		return nil
	}
	return err
}

func stored(request *http.Request, put Object, body payload) *http.Response {
	header := http.Header{}
	for name, value := range put.Headers {
		header.Set(name, value)
	}
	header.Set("ETag", `"`+put.ETag+`"`)
	if put.VersionID != "" && put.VersionID != "null" { // S3 reports the version of a PUT in buckets with versions
		header.Set("x-amz-version-id", put.VersionID)
	}
	if name, value, found := strings.Cut(body.checksum, ":"); found {
		header.Set(checksumPrefix+strings.ToLower(name), value)
	}
	return answer(request, http.StatusOK, header, nil)
}

func answer(request *http.Request, status int, header http.Header, data []byte) *http.Response {
	header.Set("Content-Length", strconv.Itoa(len(data)))
	return &http.Response{Status: strconv.Itoa(status) + " " + http.StatusText(status), StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1,
		ProtoMinor: 1, Header: header, Body: io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data)), Request: request}
}
