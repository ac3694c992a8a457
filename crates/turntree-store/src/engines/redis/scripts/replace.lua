-- Replaces a log. Returns 0; or 2 if the log has another head, 3 if there is none.
-- KEYS: head, log, blobs, index
-- ARGV: revision and digest of the expected head ('' and '' for a new session), the session's place in the index, the
--       number of fields, names and values of the head, the number of entries, entries, addresses and data of blobs
local stored = redis.call('HMGET', KEYS[1], 'revision', 'digest', 'place')
if ARGV[1] == '' then
    if stored[1] then return 2 end
else
    if not stored[1] then return 3 end
    if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return 2 end
end
redis.call('UNLINK', KEYS[2], KEYS[3])
local last = 4 + 2 * tonumber(ARGV[4])
for field = 5, last, 2 do redis.call('HSET', KEYS[1], ARGV[field], ARGV[field + 1]) end
redis.call('HSET', KEYS[1], 'place', ARGV[3])
local entries = last + 1 + tonumber(ARGV[last + 1])
for entry = last + 2, entries do redis.call('RPUSH', KEYS[2], ARGV[entry]) end
for blob = entries + 1, #ARGV, 2 do redis.call('HSETNX', KEYS[3], ARGV[blob], ARGV[blob + 1]) end
if stored[3] then redis.call('ZREM', KEYS[4], stored[3]) end
redis.call('ZADD', KEYS[4], 0, ARGV[3])
return 0
