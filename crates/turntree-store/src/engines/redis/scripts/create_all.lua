-- Gives the keys of sessions their final names. Returns nothing, or why it has changed nothing: 'exists' or 'expired', and
-- the id of the session.
-- KEYS: for each session, head, log, blobs and index under temporary names, and under their final names
-- ARGV: for each session, its id and its place in the index
for session = 0, #ARGV / 2 - 1 do
    local key = 8 * session
    if redis.call('EXISTS', KEYS[key + 5]) == 1 then return {'exists', ARGV[2 * session + 1]} end
    if redis.call('EXISTS', KEYS[key + 1]) == 0 or redis.call('EXISTS', KEYS[key + 2]) == 0 then
        return {'expired', ARGV[2 * session + 1]}
    end
end
for session = 0, #ARGV / 2 - 1 do
    local key = 8 * session
    for part = 1, 3 do
        if redis.call('EXISTS', KEYS[key + part]) == 1 then
            redis.call('RENAME', KEYS[key + part], KEYS[key + 4 + part])
            redis.call('PERSIST', KEYS[key + 4 + part])
        end
    end
    redis.call('ZADD', KEYS[key + 8], 0, ARGV[2 * session + 2])
    redis.call('UNLINK', KEYS[key + 4])
end
return false
