"""What an administrator wants of the rules: policy, profiles, waivers, approvals."""
