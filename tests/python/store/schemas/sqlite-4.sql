-- What version 4 adds: leases by the clock of the machine.
-- `expires` counts from the start of the machine; `boot` names that start. A lease without it has expired.
ALTER TABLE leases ADD COLUMN boot TEXT;
UPDATE leases SET boot = 'another start of the machine', expires = 9223372036854775807;
