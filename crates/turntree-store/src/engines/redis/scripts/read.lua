-- Reads a session at one point in time: the fields of its head and its log. A transaction would be refused by a server
-- whose memory is full.
-- KEYS: head, log
return {redis.call('HGETALL', KEYS[1]), redis.call('LRANGE', KEYS[2], 0, -1)}
