-- Reads what the check compares, at one point in time. Returns whether there is a head, its revision, its digest, the
-- length of the log, the digest of its last entry, whether there are blobs, whether the head's place is in the index, and
-- whether the given place is in the index although it is not the head's.
-- KEYS: head, log, blobs, index
-- ARGV: the places that were in the index
local head = redis.call('HMGET', KEYS[1], 'revision', 'digest', 'place')
local last = redis.call('LINDEX', KEYS[2], -1)
local listed = head[3] and redis.call('ZSCORE', KEYS[4], head[3])
local stale = false
for _, place in ipairs(ARGV) do
    stale = stale or (place ~= head[3] and redis.call('ZSCORE', KEYS[4], place))
end
return {
    redis.call('EXISTS', KEYS[1]), head[1] or '', head[2] or '', redis.call('LLEN', KEYS[2]),
    last and string.sub(last, 1, 32) or '', redis.call('EXISTS', KEYS[3]), listed and 1 or 0, stale and 1 or 0
}
