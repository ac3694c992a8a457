-- Deletes a session. Returns 1, or 0 if there was none.
-- KEYS: head, log, blobs, index
local place = redis.call('HGET', KEYS[1], 'place')
if place then redis.call('ZREM', KEYS[4], place) end
return redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3]) > 0 and 1 or 0
