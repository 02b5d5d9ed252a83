"""Who may do what, and what is checked on the way in: roles, certificates, policies, webhooks."""
