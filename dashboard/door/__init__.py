"""The door: signing in and staying signed in, on top of django-allauth and django-axes. No page of the product itself.

What a person may do once inside stands in `dashboard.access`; that it is still them, in `dashboard.confirming`.
"""
