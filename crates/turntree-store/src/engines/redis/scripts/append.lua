-- Appends an entry. Returns 0; or 1 if a newer fencing token was used, 2 if the log has another head, 3 if there is none.
-- KEYS: head, log, blobs, index
-- ARGV: revision and digest of the expected head ('' and '' for a new session), fence or '', entry, the session's place in
--       the index, the number of fields, names and values of the head, addresses and data of blobs
local stored = redis.call('HMGET', KEYS[1], 'revision', 'digest', 'fence', 'place')
local fence = ARGV[3]
if fence ~= '' and stored[3] then
    -- Numbers of 64 bits are texts: a longer one is greater, and of the same length they compare as texts.
    local newest = stored[3]
    if #fence < #newest or (#fence == #newest and fence < newest) then return 1 end
end
if ARGV[1] == '' then
    if stored[1] then return 2 end
else
    if not stored[1] then return 3 end
    if stored[1] ~= ARGV[1] or stored[2] ~= ARGV[2] then return 2 end
end
redis.call('RPUSH', KEYS[2], ARGV[4])
local last = 6 + 2 * tonumber(ARGV[6])
for field = 7, last, 2 do redis.call('HSET', KEYS[1], ARGV[field], ARGV[field + 1]) end
redis.call('HSET', KEYS[1], 'place', ARGV[5])
if fence ~= '' then redis.call('HSET', KEYS[1], 'fence', fence) end
for blob = last + 1, #ARGV, 2 do redis.call('HSETNX', KEYS[3], ARGV[blob], ARGV[blob + 1]) end
if stored[4] ~= ARGV[5] then
    if stored[4] then redis.call('ZREM', KEYS[4], stored[4]) end
    redis.call('ZADD', KEYS[4], 0, ARGV[5])
end
return 0
